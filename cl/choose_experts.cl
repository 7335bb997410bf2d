// SPDX-License-Identifier: Apache-2.0
// choose_experts.cl: from a router's logits to the experts of each token and their weights, by the rules of
// backends/numerics/experts.h: scores, the best groups of experts, the best experts of those, in a total order (larger first, NaN
// last, then the smaller id), so that the choice depends on nothing but the scores. One work-group makes one token; of a single token it
// sorts the slots as well (sort_rows.cl), which saves a launch.
//
// Tunable  usual    values      meaning
// LANES    1        1 to 256    work-items; they take experts in turn
// Set by the host:
// LOGITS_TYPE  1  0 1 2 3       f32, f16, bf16; 0: there are none
// SCORE        1  0 to 3        softmax, sigmoid, sqrt of softplus; 0: ids are given
// HAS_BIAS, NORMALIZE, SHARED_GATE, BEST_OF_TWO  0  0 1
// Local memory: LANES * 16 B = 16 B as usual; 8 B an expert and a group; and what sort_rows has, the other kernel of the file.
#include "fp8.cl"
#include "sort_rows.cl"

static inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
static inline bool is_nan(float x) { return (as_uint(x) & 0x7fffffffu) > 0x7f800000u; }
/// Whether key a of place i comes before key b of place j.
static inline bool before(float a, int i, float b, int j) {
  if (is_nan(a) || is_nan(b)) return is_nan(a) == is_nan(b) ? i < j : is_nan(b);
  return a > b || (a == b && i < j);
}

/// What work-items agree on: a float and a place of each.
typedef struct {
  __local float* value;
  __local int* place;
} shared_best;

/// The best (value, place) of all work-items; place -1 is none. All get it.
static inline int best_of_lanes(shared_best all, int lane, float value, int place) {
  SYNC(CLK_LOCAL_MEM_FENCE);
  all.value[lane] = value;
  all.place[lane] = place;
  SYNC(CLK_LOCAL_MEM_FENCE);
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    if (lane < half_lanes) {
      const int other = all.place[lane + half_lanes], own = all.place[lane];
      if (other >= 0 && (own < 0 || before(all.value[lane + half_lanes], other, all.value[lane], own))) {
        all.value[lane] = all.value[lane + half_lanes];
        all.place[lane] = other;
      }
    }
    SYNC(CLK_LOCAL_MEM_FENCE);
  }
  return all.place[0];
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

static inline float max_of_lanes(__local float* all, int lane, float value) {
  SYNC(CLK_LOCAL_MEM_FENCE);
  all[lane] = value;
  SYNC(CLK_LOCAL_MEM_FENCE);
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    // Not max(), which OpenCL leaves undefined for infinities: lanes without an expert have one.
    if (lane < half_lanes && all[lane + half_lanes] > all[lane]) all[lane] = all[lane + half_lanes];
    SYNC(CLK_LOCAL_MEM_FENCE);
  }
  return all[0];
}

/// The best of `count` keys that comes after (last, last_place) and, where there are groups, lies in one that stays.
static inline int next_best(__local const float* keys, int count, float last, int last_place, __local const int* stays,
                            int group_size, shared_best all, int lane) {
  float value = 0.0f;
  int place = -1;
  for (int i = lane; i < count; i += LANES) {
    if (stays != 0 && stays[i / group_size] == 0) continue;
    if (last_place >= 0 && !before(last, last_place, keys[i], i)) continue;
    if (place < 0 || before(keys[i], i, value, place)) {
      value = keys[i];
      place = i;
    }
  }
  return best_of_lanes(all, lane, value, place);
}

// logits: rows ld apart from element logits_at on. scores: `experts` of them, as many keys, `groups` values and as many marks. ids, weights:
// [tokens, top_k].
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void choose_experts(PARAMETERS(CHOOSE_LIST), PARAMETERS(SORTED_LIST)) {
  __local float values[LANES];
  __local int places[LANES];
  __local long sums[LANES];
  const shared_best all = {values, places};
  const int lane = (int)get_local_id(0), token = (int)get_group_id(0);
  if (token >= tokens) return;
#if LOGITS_TYPE != 0
  const ulong row = logits_at + (ulong)token * ld;
#define LOGIT(e) load_element(LOGITS_TYPE, logits, row + (ulong)(e))
#if SHARED_GATE
  if (lane == 0) shared_weights[shared_at + (ulong)token] = sigmoid(LOGIT(experts));
#endif
#if SCORE != 0
  __local float *keys = scores + experts, *group_values = keys + experts;
  __local int* stays = (__local int*)(group_values + groups);
#if SCORE == 1
  float top = -INFINITY, sum = 0.0f;
  for (int e = lane; e < experts; e += LANES) {
    const float x = LOGIT(e);
    top = x > top ? x : top;
  }
  top = max_of_lanes(values, lane, top);
  for (int e = lane; e < experts; e += LANES) {
    const float x = exp(LOGIT(e) - top);
    scores[e] = x;
    sum += x;
  }
  sum = sum_of_lanes(values, lane, sum);
#endif
  for (int e = lane; e < experts; e += LANES) {
#if SCORE == 1
    const float score = scores[e] / sum;
#elif SCORE == 2
    const float score = sigmoid(LOGIT(e));
#else
    const float x = LOGIT(e);
    const float score = is_nan(x) ? x : sqrt((x > 0.0f ? x : 0.0f) + log1p(exp(-fabs(x))));
#endif
    scores[e] = score;
#if HAS_BIAS
    keys[e] = score + bias[bias_at + (ulong)e];
#else
    keys[e] = score;
#endif
  }
  SYNC(CLK_LOCAL_MEM_FENCE);
  const int size = experts / groups;
  if (groups > 1) {
    for (int g = lane; g < groups; g += LANES) {
      __local const float* of = keys + g * size;
      int best = 0, second = -1;
      for (int i = 1; i < size; ++i) {
        if (before(of[i], i, of[best], best)) {
          second = best;
          best = i;
        } else if (second < 0 || before(of[i], i, of[second], second)) {
          second = i;
        }
      }
#if BEST_OF_TWO
      group_values[g] = second < 0 ? of[best] : of[best] + of[second];
#else
      group_values[g] = of[best];
#endif
      stays[g] = 0;
    }
    SYNC(CLK_LOCAL_MEM_FENCE);
    int last = -1;
    for (int i = 0; i < top_groups; ++i) {
      last = next_best(group_values, groups, last < 0 ? 0.0f : group_values[last], last, 0, 1, all, lane);
      if (lane == 0) stays[last] = 1;
    }
    SYNC(CLK_LOCAL_MEM_FENCE);
  }
  __global int* own_ids = ids + ids_at + (ulong)token * (ulong)top_k;
  __global float* own_weights = weights + weights_at + (ulong)token * (ulong)top_k;
  int last = -1;
  float chosen_sum = 0.0f;
  for (int j = 0; j < top_k; ++j) {
    last = next_best(keys, experts, last < 0 ? 0.0f : keys[last], last, groups > 1 ? stays : 0, size, all, lane);
    chosen_sum += scores[last];
    if (lane == 0) {
      own_ids[j] = last;
      own_weights[j] = scores[last];
    }
  }
  if (lane == 0) {
    for (int j = 0; j < top_k; ++j) {
      float weight = own_weights[j];
#if NORMALIZE
      if (chosen_sum != 0.0f) weight /= chosen_sum;
#endif
      own_weights[j] = weight * factor;
    }
  }
  if (tokens == 1) {
    SYNC(CLK_GLOBAL_MEM_FENCE);
    SORT_SLOTS(places, sums, lane);
  }
#endif
#endif
}
