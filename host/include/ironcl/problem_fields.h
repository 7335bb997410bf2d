/* SPDX-License-Identifier: Apache-2.0
 *
 * problem_fields.h - the fields of a problem, once: X(member of ironcl_gemm_desc, the same in C++), in the order of
 * the C struct. Every conversion is made of this list; flags and options are what it leaves to them. */
#ifndef IRONCL_PROBLEM_FIELDS_H_
#define IRONCL_PROBLEM_FIELDS_H_

#define IRONCL_PROBLEM_FIELDS(X)        \
  X(weakest_accuracy, weakest_accuracy) \
  X(m, m)                               \
  X(n, n)                               \
  X(k, k)                               \
  X(lda, lda)                           \
  X(ldd, ldd)                           \
  X(a_rows, a_rows)                     \
  X(a_source_dtype, a_source)           \
  X(a_dtype, a)                         \
  X(b_dtype, b)                         \
  X(d_dtype, d)                         \
  X(bias_dtype, bias)                   \
  X(grouping, grouping)                 \
  X(matrices, matrices)                 \
  X(a_scale, a_scale)                   \
  X(b_scale, b_scale)                   \
  X(d_scale, d_scale)                   \
  X(a_quantizer, a_quantizer)           \
  X(d_quantizer, d_quantizer)

#endif /* IRONCL_PROBLEM_FIELDS_H_ */
