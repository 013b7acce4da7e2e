// Losses and distances that are written in operations. Those with kernels of their own
// (cross_entropy and its kin) are in ops.h. `reduction` is "none", "mean" or "sum" everywhere.
#pragma once

#include <string>

#include "pyflame/tensor.h"

namespace pyflame {

// ---- distances: src/ops/distance.cpp ------------------------------------------------------------
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1, double eps = 1e-8);
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6,
                         bool keepdim = false);
Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2);  // [..., P, M] and [..., R, M]
Tensor pdist(const Tensor& x, double p = 2);                     // pairs of rows of a matrix
Tensor dist(const Tensor& x, const Tensor& y, double p = 2);     // norm of the difference
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12);

// ---- weighted differences: src/ops/loss.cpp -----------------------------------------------------
// The mean of a weighted mse_loss and l1_loss divides by the sum of the weights.
Tensor mse_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
                const Tensor& weight);
Tensor l1_loss(const Tensor& input, const Tensor& target, const std::string& reduction,
               const Tensor& weight);
Tensor huber_loss(const Tensor& input, const Tensor& target, const std::string& reduction = "mean",
                  double delta = 1, const Tensor& weight = {});

// ---- margins and likelihoods: src/ops/loss_margin.cpp -------------------------------------------
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input = true,
                        bool full = false, double eps = 1e-8,
                        const std::string& reduction = "mean");
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         bool full = false, double eps = 1e-6,
                         const std::string& reduction = "mean");
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin = 1,
                            const std::string& reduction = "mean");
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             double margin = 0, const std::string& reduction = "mean");
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           double margin = 0, const std::string& reduction = "mean");
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                           const std::string& reduction = "mean");
Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        const std::string& reduction = "mean");
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const Tensor& weight = {},
                                   const std::string& reduction = "mean");
Tensor multi_margin_loss(const Tensor& input, const Tensor& target, int64_t p = 1,
                         double margin = 1, const Tensor& weight = {},
                         const std::string& reduction = "mean");

}  // namespace pyflame
