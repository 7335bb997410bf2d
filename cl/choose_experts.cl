// SPDX-License-Identifier: Apache-2.0
// choose_experts.cl: from a router's logits to the experts of each token and their weights, by the rules of
// backends/numerics/experts.h: scores, the best groups of experts, the best experts of those, in a total order (larger first, NaN
// last, then the smaller id), so that the choice depends on nothing but the scores. One work-group makes one token; of a single token it
// sorts the slots as well (sort_rows.cl), which saves a launch, unless there are none to sort.
//
// Tunable  usual    values      meaning
// LANES    1        1 to 256    work-items, a power of two; they take experts in turn. A warp finds the best by two instructions
// Set by the host:
// LOGITS_TYPE  1  0 1 2 3       f32, f16, bf16; 0: there are none
// SCORE        1  0 to 3        softmax, sigmoid, sqrt of softplus; 0: ids are given
// HAS_BIAS, NORMALIZE, SHARED_GATE, BEST_OF_TWO  0  0 1
// Local memory: LANES * 12 B = 12 B as usual; 8 B an expert and 4 B a group; and what sort_rows has, the other kernel of the file.
#include "fp8.cl"
#include "sort_rows.cl"

static inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
static inline bool is_nan(float x) { return (as_uint(x) & 0x7fffffffu) > 0x7f800000u; }

/// A key as an integer of the same order: a NaN is 1, the least, and -0 is 0. 0 is left for who is out of the choice.
static inline uint key_of(float x) {
  const uint bits = as_uint(x) << 1 == 0 ? 0 : as_uint(x);
  return is_nan(x) ? 1 : bits >> 31 ? ~bits : bits | 0x80000000u;
}
static inline float value_of(uint key) { return as_float(key >> 31 ? key & 0x7fffffffu : ~key); }

/// The place of the largest of `count` keys, of equal ones the first, which is then out of the choice. A lane reads and writes every LANES-th.
static inline int take_best(__local uint* keys, int count, __local uint* all, int lane) {
  uint best = 0, place = 0;
  ROLLED for (int i = lane; i < count; i += LANES) {
    if (keys[i] > best) {
      best = keys[i];
      place = (uint)i;
    }
  }
  const uint best_of_all = largest_of_lanes(all, lane, best);
  const int taken = (int)~largest_of_lanes(all, lane, best == best_of_all ? ~place : 0);
  if (taken % LANES == lane) keys[taken] = 0;
  return taken;
}

static inline float sum_of_lanes(__local float* all, int lane, float value) {
  SYNC(CLK_LOCAL_MEM_FENCE);
  all[lane] = value;
  SYNC(CLK_LOCAL_MEM_FENCE);
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    if (lane < half_lanes) all[lane] += all[lane + half_lanes];
    SYNC(CLK_LOCAL_MEM_FENCE);
  }
  return all[0];
}

// logits: rows ld apart from element logits_at on. scores: `experts` of them, as many keys, `groups` of their keys. ids, weights:
// [tokens, top_k].
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void choose_experts(PARAMETERS(CHOOSE_LIST), PARAMETERS(SORTED_LIST)) {
  __local uint values[LANES];
  __local long sums[LANES];
  const int lane = (int)get_local_id(0), token = (int)get_group_id(0);
  if (token >= tokens) return;
#if LOGITS_TYPE != 0
  const ulong row = logits_at + (ulong)token * ld;
#define LOGIT(e) load_element(LOGITS_TYPE, logits, row + (ulong)(e))
#if SHARED_GATE
  if (lane == 0) shared_weights[shared_at + (ulong)token] = sigmoid(LOGIT(experts));
#endif
#if SCORE != 0
  __local uint *keys = (__local uint*)(scores + experts), *group_keys = keys + experts;
  _Pragma("unroll 8") for (int e = lane; e < experts; e += LANES) scores[e] = LOGIT(e);
#if SCORE == 1
  uint top = 0;
  float sum = 0.0f;
  ROLLED for (int e = lane; e < experts; e += LANES) top = max(top, key_of(scores[e]));
  const float subtracted = value_of(largest_of_lanes(values, lane, top));
  ROLLED for (int e = lane; e < experts; e += LANES) sum += scores[e] = exp(scores[e] - subtracted);
  sum = sum_of_lanes((__local float*)values, lane, sum);
#endif
  ROLLED for (int e = lane; e < experts; e += LANES) {
    const float x = scores[e];
#if SCORE == 1
    const float score = x / sum;
#elif SCORE == 2
    const float score = sigmoid(x);
#else
    const float score = is_nan(x) ? x : sqrt((x > 0.0f ? x : 0.0f) + log1p(exp(-fabs(x))));
#endif
    scores[e] = score;
#if HAS_BIAS
    keys[e] = key_of(score + bias[bias_at + (ulong)e]);
#else
    keys[e] = key_of(score);
#endif
  }
  SYNC(CLK_LOCAL_MEM_FENCE);
  if (groups > 1) {
    const int size = experts / groups;
    ROLLED for (int g = lane; g < groups; g += LANES) {
      uint best = 0, second = 0;
      _Pragma("unroll 4") for (int i = 0; i < size; ++i) {
        const uint key = keys[g * size + i];
        second = max(second, min(best, key));
        best = max(best, key);
      }
      group_keys[g] = BEST_OF_TWO && size > 1 ? key_of(value_of(best) + value_of(second)) : best;
    }
    ROLLED for (int i = 0; i < top_groups; ++i) take_best(group_keys, groups, values, lane);
    SYNC(CLK_LOCAL_MEM_FENCE);
    ROLLED for (int e = lane; e < experts; e += LANES)
      if (group_keys[e / size] != 0) keys[e] = 0;
  }
  __global int* own_ids = ids + ids_at + (ulong)token * (ulong)top_k;
  __global float* own_weights = weights + weights_at + (ulong)token * (ulong)top_k;
  float chosen_sum = 0.0f;
  ROLLED for (int j = 0; j < top_k; ++j) {
    const int expert = take_best(keys, experts, values, lane);
    chosen_sum += scores[expert];
    if (j % LANES == lane) {
      own_ids[j] = expert;
      own_weights[j] = scores[expert];
    }
  }
  ROLLED for (int j = lane; j < top_k; j += LANES) {
    float weight = own_weights[j];
#if NORMALIZE
    if (chosen_sum != 0.0f) weight /= chosen_sum;
#endif
    own_weights[j] = weight * factor;
  }
  if (tokens == 1 && slots != 0) {
    SYNC(CLK_GLOBAL_MEM_FENCE);
    SORT_SLOTS((__local int*)values, sums, lane);
  }
#endif
#endif
}
