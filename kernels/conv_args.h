// The arguments of the kernels of convolutions (conv.h).
#ifndef PF_CONV_ARGS_H
#define PF_CONV_ARGS_H
#include "integers.h"

// A convolution or one of its gradients as a product, group by group: out[m, n] = the sum over k of
// gathered[m, k] * plain[k, n]. Of m and k one counts pixels of a batch, the other channels and
// taps; where both meet, the gathered tensor is read, if that is inside of it. Strides in elements.
struct pf_conv {
  const void *gathered, *plain, *bias;
  void *out, *partial;  // sums of shares of k: [share][group][n][m]
  pf_i64 groups, m, n, k;
  pf_i64 share, shares;  // of k
  pf_i64 tiles_m, tiles_n;
  // The gathered tensor, and what one group is apart from the next.
  pf_i64 size[3], at[3], batch, channel, group;
  // The pixels, and where they lie in the tensor that is not gathered.
  pf_i64 pixels[3], pixel_at[3], pixel_batch;
  // The taps of channels, and where they lie in the weight.
  pf_i64 taps[3], tap_at[3], channels, tap_channel;
  pf_i64 kept;  // channels that the weight has; others were filled up
  pf_i64 stride[3], padding[3], dilation[3];
  // From one n to the next, and from one group to the next.
  pf_i64 plain_n, out_n, plain_group, out_group;
};
static_assert(sizeof(pf_conv) == 408, "as hosts fill it");

#endif
