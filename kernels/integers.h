// Integers by their widths, for kernels and for the structs that launchers fill for them
// (kernels/*_args.h, which hosts include, too).
#ifndef PF_INTEGERS_H
#define PF_INTEGERS_H

typedef signed char pf_i8;
typedef unsigned char pf_u8;
typedef short pf_i16;
typedef unsigned short pf_u16;
typedef int pf_i32;
typedef unsigned int pf_u32;
typedef long long pf_i64;
typedef unsigned long long pf_u64;

#endif
