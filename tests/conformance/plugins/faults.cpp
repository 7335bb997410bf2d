// SPDX-License-Identifier: Apache-2.0
// The list of planted faults.
#include "tests/conformance/plugins/faults.h"

#include <algorithm>

namespace ironcl::reference {
namespace {

constexpr std::string_view kFaults[] = {
    // numbers
    "scale_index_at_edges", "tile_straddles_group", "rows_of_scales_shifted", "scale_ld_ignored", "f16_accumulation",
    "scaled_b_in_bf16", "truncates_bf16", "saturates_f16", "flushes_f16_subnormals", "nan_code_becomes_number",
    "subnormal_codes_are_zero", "minus_is_lost_for_e5m2", "nan_scale_becomes_one", "last_column_is_not_written",
    "not_repeatable", "adds_to_d", "ignores_lda", "ignores_offsets", "bias_is_forgotten",
    // memory
    "writes_the_gap", "writes_before_d", "writes_rows_past_m", "no_rows_write", "writes_past_workspace",
    "writes_input", "write_keeps_the_pointer", "read_is_short",
    // the quantiser
    "reciprocal_quantizer", "zero_group_is_nan", "infinity_becomes_448", "floor_ignored", "power_of_two_rounds_down",
    "stale_rows", "code_ld_ignored", "scale_of_d_off_by_one", "weaker_than_allowed", "classes_differ",
    "unguarded_codes", "codes_change_product",
    // weights
    "export_cleans_nan", "export_is_padded", "export_overruns", "weights_keep_the_pointer", "weights_ld_ignored",
    "weights_of_any_shape", "usual_weights_refused",
    // order
    "wait_list_ignored", "queue_wait_ignored", "events_end_at_once", "buffers_go_at_once",
    "status_of_dependants_lost", "plans_go_at_once", "modelled_is_measured", "event_ends_twice",
    "unwatched_calls_are_dropped",
    // the boundary
    "out_touched_on_failure", "tail_ignored", "required_chain_ignored", "optional_chain_refused", "reads_past_size",
    "writes_past_size", "error_not_filled", "error_not_cut", "error_on_success", "unknown_values_ignored",
    "unknown_option_ignored", "supports_says_yes", "texts_differ", "refuses_the_floor", "accepts_negative_sizes",
    "accepts_overflow", "accepts_short_spans", "operand_is_not_named", "capacity_ignored", "query_not_cut",
    "second_load_accepted", "accumulation_straddles", "refuses_with_internal", "overlap_accepted",
    "overlap_of_the_bias_accepted",
    // the host's process
    "imports_off_the_alignment", "imports_copy", "events_keep_their_causes", "fork_ignored",
    // layers of experts
    "wrong_matrix", "scales_of_the_first_matrix", "grid_runs_on_over_matrices", "bias_of_the_first_matrix",
    "writes_past_the_counts", "last_row_of_a_matrix_is_lost", "negative_counts_are_one", "a_index_is_ignored",
    "wild_indices_are_row_0", "counts_are_read_early", "rows_depend_on_company", "ties_go_to_the_larger",
    "nan_is_the_largest", "softplus_overflows", "groups_are_ignored", "best_of_one", "bias_is_weighed",
    "weights_stay_as_they_are", "rows_in_reverse", "capacity_is_counted_past", "index_is_cleared",
    "no_tokens_count_nothing", "logits_ld_ignored", "wild_ids_are_expert_0", "shared_gate_is_forgotten",
    "activates_every_row", "gate_and_up_are_swapped", "limit_is_forgotten", "gate_is_clamped_below", "up_without_1",
    "activation_in_bf16", "refuses_grouped", "combine_is_backwards", "combine_multiplies_by_zero", "combine_fuses",
    "add_weights_are_ignored"};

std::string_view planted;

}  // namespace

std::span<const std::string_view> fault_names() { return kFaults; }

bool fault(std::string_view name) { return !planted.empty() && planted == name; }

bool plant(std::string_view name) {
  planted = {};
  if (name.empty()) return true;
  const auto* found = std::find(std::begin(kFaults), std::end(kFaults), name);
  if (found == std::end(kFaults)) return false;
  planted = *found;
  return true;
}

}  // namespace ironcl::reference
