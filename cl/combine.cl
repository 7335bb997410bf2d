// SPDX-License-Identifier: Apache-2.0
// combine.cl: Y[t] = sum over j of weights[t, j] * X[rows[t, j]], in this order, then + add_weights[t] * add[t]. Each product and each
// sum is rounded to f32 and nothing is fused: the same bits on every device. A slot whose row is outside of X adds nothing.
// A work-item makes WIDTH columns of a token.
//
// Tunable  usual    values   meaning
// WIDTH    16       4 16     columns of a work-item; 16 works on vectors, 4 asks for several rows at once
// Set by the host:
// X_TYPE, Y_TYPE  1  1 2 3     f32, f16, bf16
// ADD_TYPE        0  0 1 2 3   0: nothing is added
// WEIGH_ADD       0  0 1       the added row has a weight
// Local memory: none.
#include "arguments.cl"
#include "fp8.cl"

#define AT_ONCE 4  // Rows that a work-item of four columns asks for before it needs the first.

#if ADD_TYPE != 0
#define ADDED_PLACES PLACES(ADD_TYPE, add, add_at, ld_add)
#else
#define ADDED_PLACES 0
#endif

__kernel WIDE_VECTORS void combine(PARAMETERS(COMBINE_LIST)) {
  const int first = (int)get_global_id(0) * WIDTH, token = (int)get_global_id(1);
  if (token >= tokens || first >= cols) return;
  __global const int* own_rows = rows + rows_at + (ulong)token * (ulong)top_k;
  __global const float* own_weights = weights + weights_at + (ulong)token * (ulong)top_k;
#if ADD_TYPE != 0 && WEIGH_ADD
  const float add_weight = add_weights[add_weights_at + (ulong)token];
#else
  const float add_weight = 1.0f;
#endif
#if WIDTH == 4
  if (first + 4 <= cols && (PLACES(X_TYPE, x, x_at, ldx) | PLACES(Y_TYPE, y, y_at, ldy) | ADDED_PLACES) % 4 == 0) {
    float4 sum = (float4)(0.0f);
    const int slots = x_rows > 0 ? top_k : 0;
    for (int j = 0; j < slots; j += AT_ONCE) {
      float4 parts[AT_ONCE];
      bool has[AT_ONCE];
      for (int i = 0; i < AT_ONCE; ++i) {
        const int slot = min(j + i, slots - 1), row = own_rows[slot];
        has[i] = j + i < slots && row >= 0 && row < x_rows;
        parts[i] = own_weights[slot] * load_floats4(X_TYPE, x, x_at + (ulong)clamp(row, 0, x_rows - 1) * ldx + (ulong)first);
      }
      for (int i = 0; i < AT_ONCE; ++i) sum = has[i] ? sum + parts[i] : sum;
    }
#if ADD_TYPE != 0
    const float4 part = add_weight * load_floats4(ADD_TYPE, add, add_at + (ulong)token * ld_add + (ulong)first);
    sum = sum + part;
#endif
    store_elements4(Y_TYPE, y, y_at + (ulong)token * ldy + (ulong)first, sum);
    return;
  }
#elif WIDTH == 16
  if (first + 16 <= cols) {
    float16 sum = (float16)(0.0f);
    for (int j = 0; j < top_k; ++j) {
      const int row = own_rows[j];
      if (row < 0 || row >= x_rows) continue;
      const float16 part = (float16)(own_weights[j]) * load_floats16(X_TYPE, x, x_at + (ulong)row * ldx + (ulong)first);
      sum = sum + part;
    }
#if ADD_TYPE != 0
    const float16 part = (float16)(add_weight) * load_floats16(ADD_TYPE, add, add_at + (ulong)token * ld_add + (ulong)first);
    sum = sum + part;
#endif
    store_elements16(Y_TYPE, y, y_at + (ulong)token * ldy + (ulong)first, sum);
    return;
  }
#endif
  // The columns inside: a loop that is nothing but one column's sum is added in another order by Intel (docs/trust.md).
  const int end = min(first + WIDTH, cols);
  float sum[WIDTH];
  for (int i = 0; i < WIDTH; ++i) sum[i] = 0.0f;
  for (int j = 0; j < top_k; ++j) {
    const int row = own_rows[j];
    if (row < 0 || row >= x_rows) continue;
    const float weight = own_weights[j];
    for (int col = first; col < end; ++col) {
      const float part = weight * load_element(X_TYPE, x, x_at + (ulong)row * ldx + (ulong)col);
      sum[col - first] = sum[col - first] + part;
    }
  }
  for (int col = first; col < end; ++col) {
#if ADD_TYPE != 0
    const float part = add_weight * load_element(ADD_TYPE, add, add_at + (ulong)token * ld_add + (ulong)col);
    sum[col - first] = sum[col - first] + part;
#endif
    store_element(Y_TYPE, y, y_at + (ulong)token * ldy + (ulong)col, sum[col - first]);
  }
}
