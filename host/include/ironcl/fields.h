/* SPDX-License-Identifier: Apache-2.0
 *
 * fields.h - members of the ABI as lists, of which conversions and tables are made: the fields of a problem, and the
 * slots of a plugin's table. */
#ifndef IRONCL_FIELDS_H_
#define IRONCL_FIELDS_H_

/* X(member of ironcl_gemm_desc, the same in C++), in the order of the C struct; but for flags and options. */
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
  X(activation, activation)             \
  X(a_scale, a_scale)                   \
  X(b_scale, b_scale)                   \
  X(d_scale, d_scale)                   \
  X(a_quantizer, a_quantizer)           \
  X(d_quantizer, d_quantizer)           \
  X(activation_limit, activation_limit)

/* Every function slot of ironcl_plugin, in the order of the table: X(name). */
#define IRONCL_FOR_EACH_SLOT(X) \
  X(load)                       \
  X(unload)                     \
  X(enumerate)                  \
  X(device_props)               \
  X(device_import)              \
  X(device_query)               \
  X(queue_create)               \
  X(queue_finish)               \
  X(queue_wait)                 \
  X(queue_destroy)              \
  X(buffer_create)              \
  X(buffer_destroy)             \
  X(write)                      \
  X(read)                       \
  X(weights_prepare)            \
  X(weights_export)             \
  X(weights_info)               \
  X(weights_destroy)            \
  X(supports)                   \
  X(op_create)                  \
  X(op_info)                    \
  X(op_enqueue)                 \
  X(op_destroy)                 \
  X(event_wait)                 \
  X(event_profile)              \
  X(event_destroy)

#endif /* IRONCL_FIELDS_H_ */
