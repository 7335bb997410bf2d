// SPDX-License-Identifier: Apache-2.0
// The planted faults of the reference plugin: load option "fault=NAME" turns one on, and
// tests/conformance/faults_test.cpp proves that the test named for it sees it. A new test of the suite comes with a
// fault that it sees, and a row here.
#pragma once

#include <algorithm>
#include <string_view>

namespace ironcl::reference {

struct Row {
  std::string_view fault;
  std::string_view test;  ///< One that must be red.
};

inline constexpr Row kRows[] = {
    {"scale_index_at_edges", "Grid.A1x128B128x128"},
    {"tile_straddles_group", "Grid.A1x64B64x64"},
    {"rows_of_scales_shifted", "Exact.Blocks128Inf32"},
    {"scale_ld_ignored", "Grid.ScalesOfAWithALeadingDimension"},
    {"f16_accumulation", "Random.LongKInF32"},
    {"scaled_b_in_bf16", "Random.Blocks128Inf32"},
    {"truncates_bf16", "Exact.Blocks128Inbf16"},
    {"saturates_f16", "Output.OverflowGivesInfinityInf16"},
    {"flushes_f16_subnormals", "Output.SubnormalsOfF16AreRounded"},
    {"nan_code_becomes_number", "Codes.E4m3ProductOfEveryPair"},
    {"subnormal_codes_are_zero", "Codes.E4m3EveryCodeOfB"},
    {"minus_is_lost_for_e5m2", "Codes.E5m2EveryCodeOfA"},
    {"nan_scale_becomes_one", "Output.NanScalesGiveNanThereOnlyInf32"},
    {"last_column_is_not_written", "Ragged.M17N136K264"},
    {"not_repeatable", "Repeat.TwentyCalls"},
    {"adds_to_d", "Memory.DIsOverwrittenNotAddedTo"},
    {"ignores_lda", "Ragged.GapsBetweenRowsOfA"},
    {"ignores_offsets", "Ragged.SpansInsideLargerBuffers"},
    {"bias_is_forgotten", "Exact.BiasInF32"},
    {"writes_the_gap", "Ragged.GapsBetweenRowsOfD"},
    {"writes_before_d", "Ragged.M3N136K264"},
    {"writes_rows_past_m", "Ragged.FewerRowsThanPlanned"},
    {"no_rows_write", "Ragged.NoRowsWriteNothing"},
    {"writes_past_workspace", "Memory.WorkspaceOfTheCallerIsEnough"},
    {"writes_input", "Memory.InputsAreNotWritten"},
    {"write_keeps_the_pointer", "Memory.WriteCopiesBeforeItReturns"},
    {"read_is_short", "Memory.WhatIsWrittenIsRead"},
    {"reciprocal_quantizer", "Dynamic.HardValuesFromf32"},
    {"zero_group_is_nan", "Dynamic.HardValuesFrombf16"},
    {"infinity_becomes_448", "Dynamic.HardValuesFromf16"},
    {"floor_ignored", "Dynamic.AFloorOfOneTenThousandth"},
    {"power_of_two_rounds_down", "Dynamic.PowerOfTwoScales"},
    {"stale_rows", "Ragged.FewerRowsThanPlannedQuantisedInThePlan"},
    {"unguarded_codes", "Dynamic.OrdinaryValuesFromf32"},
    {"codes_change_product", "Dynamic.OrdinaryValuesFrombf16"},
    {"export_cleans_nan", "Weights.ExportIsBitExact"},
    {"export_is_padded", "Weights.ExportOfPaddedRowsIsTight"},
    {"export_overruns", "Weights.ExportOfAPlansLayoutIsBitExact"},
    {"weights_keep_the_pointer", "Weights.UsualLayoutIsRight"},
    {"usual_weights_refused", "Weights.OneSetServesManyPlans"},
    {"weights_ld_ignored", "Ragged.GapsBetweenRowsOfB"},
    {"weights_of_any_shape", "Call.WeightsOfAnotherShapeAreRefused"},
    {"wait_list_ignored", "Async.WaitListOrdersTwoQueues"},
    {"queue_wait_ignored", "Async.QueueWaitsForAnotherQueue"},
    {"events_end_at_once", "Async.QueueWaitsForAnotherQueue"},
    {"buffers_go_at_once", "Async.BuffersMayGoWhileInUse"},
    {"status_of_dependants_lost", "Async.AFailureReachesDependants"},
    {"plans_go_at_once", "Async.PlanAndWeightsMayGoWhileInUse"},
    {"modelled_is_measured", "Async.ProfileIsSane"},
    {"unwatched_calls_are_dropped", "Memory.ACallWithoutAnEventEndsAtFinish"},
    {"event_ends_twice", "Async.ATimeoutOfZeroAsks"},
    {"out_touched_on_failure", "Struct.PropertiesAreUntouchedOnFailure"},
    {"tail_ignored", "Struct.DescriptionsMayBeShortOrLong"},
    {"required_chain_ignored", "Struct.DescriptionsMayBeShortOrLong"},
    {"optional_chain_refused", "Struct.DescriptionsMayBeShortOrLong"},
    {"reads_past_size", "Struct.DescriptionsMayBeShortOrLong"},
    {"writes_past_size", "Struct.FilledStructsKeepToTheirSize"},
    {"error_not_filled", "Struct.ErrorsAreFilledAndCut"},
    {"error_not_cut", "Struct.ErrorsAreFilledAndCut"},
    {"error_on_success", "Struct.ErrorsAreFilledAndCut"},
    {"unknown_values_ignored", "Struct.UnknownValuesAreUnimplemented"},
    {"unknown_option_ignored", "Struct.UnknownOptionsOfAPlanAreNamed"},
    {"supports_says_yes", "Grid.MicroscalingE8m0"},
    {"texts_differ", "Grid.MicroscalingE8m0"},
    {"refuses_the_floor", "Exact.Blocks256Inbf16"},
    {"refuses_grouped", "Grouped.ContiguousDealtEvenly"},
    {"accepts_negative_sizes", "Argument.WrongDescriptionsAreNamed"},
    {"accepts_overflow", "Argument.WrongDescriptionsAreNamed"},
    {"accepts_short_spans", "Call.WrongCallsAreNamed"},
    {"operand_is_not_named", "Argument.WrongDescriptionsAreNamed"},
    {"capacity_ignored", "Plugin.EnumerateCountsAndFills"},
    {"query_not_cut", "Device.QueryCutsToTheCapacity"},
    {"second_load_accepted", "Plugin.LoadTwiceIsRefused"},
    {"accumulation_straddles", "Exact.Blocks128Inf32"},
    {"refuses_with_internal", "Argument.WrongWeightsAreNamed"},
    {"overlap_accepted", "Call.WrongCallsAreNamed"},
    {"scale_of_d_off_by_one", "Output.QuantisedToE4m3fn"},
    {"weaker_than_allowed", "Output.AWeakerClassOnlyWhereAllowed"},
    {"classes_differ", "Output.AWeakerClassOnlyWhereAllowed"},
    {"code_ld_ignored", "Quantize.GapsBetweenRows"},
    {"reciprocal_quantizer", "Quantize.Groups1x128Fromf32Toe4m3fn"},
    {"power_of_two_rounds_down", "Quantize.PowerOfTwoScales"},
    {"wait_list_ignored", "Quantize.WaitsForItsWaitList"},
    {"overlap_of_the_bias_accepted", "Call.WrongCallsAreNamed"},
    {"imports_off_the_alignment", "Host.MisalignedMemoryIsRefused"},
    {"imports_copy", "Host.ImportedMemoryServesAsEveryOperand"},
    {"events_keep_their_causes", "Host.ChainsOfCallsKeepNothing"},
    {"fork_ignored", "Host.AForkedChildIsToldOrServed"},
    {"wrong_matrix", "Grouped.ContiguousPrimes"},
    {"scales_of_the_first_matrix", "Grouped.ContiguousARowEach"},
    {"grid_runs_on_over_matrices", "Grouped.N192K96"},
    {"bias_of_the_first_matrix", "Grouped.ContiguousWithBias"},
    {"writes_past_the_counts", "Grouped.MaskedPrimes"},
    {"last_row_of_a_matrix_is_lost", "Grouped.ContiguousAround16"},
    {"negative_counts_are_one", "Grouped.ContiguousNegativeCounts"},
    {"a_index_is_ignored", "Grouped.GatheredInBf16"},
    {"wild_indices_are_row_0", "Grouped.GatheredIndicesOutsideOfA"},
    {"counts_are_read_early", "Grouped.CountsAreReadWhenTheCallRuns"},
    {"rows_depend_on_company", "Grouped.ARowHasTheSameBitsInAnyCompany"},
    {"ties_go_to_the_larger", "Route.SigmoidOfTies"},
    {"nan_is_the_largest", "Route.SigmoidOfNanAndInfinity"},
    {"softplus_overflows", "Route.SqrtSoftplusOfLargeLogits"},
    {"groups_are_ignored", "Route.DeepSeekV3"},
    {"best_of_one", "Route.DeepSeekV3"},
    {"bias_is_weighed", "Route.BiasChoosesAndDoesNotWeigh"},
    {"weights_stay_as_they_are", "Route.Qwen3"},
    {"rows_in_reverse", "Route.Tokens65"},
    {"capacity_is_counted_past", "Route.CapacityDropsRows"},
    {"index_is_cleared", "Route.CapacityForAll"},
    {"no_tokens_count_nothing", "Route.NoTokensCountNoRows"},
    {"logits_ld_ignored", "Route.GapsBetweenTokens"},
    {"wild_ids_are_expert_0", "Route.GivenIds"},
    {"shared_gate_is_forgotten", "Route.Qwen3NextWithASharedGate"},
    {"activates_every_row", "Activate.MaskedRowsLeftOverTobf16"},
    {"gate_and_up_are_swapped", "Activate.bf16Tof32"},
    {"limit_is_forgotten", "Activate.SiluWithALimit"},
    {"gate_is_clamped_below", "Activate.SiluWithALimit"},
    {"up_without_1", "Activate.SwigluOfGptOss"},
    {"activation_in_bf16", "Activate.CodesAreThoseOfItsF32Values"},
    {"combine_is_backwards", "Combine.KeepsOrderAndRounding"},
    {"combine_multiplies_by_zero", "Combine.bf16Tof32"},
    {"combine_fuses", "Combine.KeepsOrderAndRounding"},
    {"add_weights_are_ignored", "Combine.Addingbf16"},
};

/// The row of a fault, or the end.
constexpr const Row* row_of(std::string_view fault) { return std::ranges::find(kRows, fault, &Row::fault); }

/// The name of a fault: one without a row does not compile.
struct Fault {
  consteval Fault(const char* text) : name(text) {
    if (row_of(name) == std::end(kRows)) throw "kRows has no such fault";
  }
  std::string_view name;
};

inline std::string_view planted;  ///< Empty: none.

inline bool fault(Fault asked) { return asked.name == planted; }

/// Plants `name`; empty: none. False where there is no such fault.
inline bool plant(std::string_view name) {
  const Row* row = row_of(name);
  planted = row == std::end(kRows) ? std::string_view() : row->fault;
  return planted == name;
}

}  // namespace ironcl::reference
