// SPDX-License-Identifier: Apache-2.0
// One wrong scale out of a difference: each scale of the suspected expert is tried as the only wrong one.
#include "host/layer/experts_blame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/numerics/casts.h"
#include "backends/numerics/oracle.h"
#include "backends/numerics/quantize.h"
#include "host/layer/operands.h"

namespace ironcl::layer {
namespace {

using numerics::DType;

/// More rows than these say nothing new about one scale.
constexpr std::size_t kMostRows = 8;
/// Explanations within this of each other are as good as each other.
constexpr double kAsMuch = 1e-3;

/// Row-major, in f64.
struct Dense {
  std::int64_t rows = 0, cols = 0;
  std::vector<double> values;
  double at(std::int64_t row, std::int64_t col) const { return values[static_cast<std::size_t>(row * cols + col)]; }
};

double silu(double x) { return x / (1 + std::exp(-x)); }

Dense decode(const MatrixForm& form, const StackedMatrices& matrix) {
  return {matrix.n, matrix.k, numerics::decode_operand(operand_of(form, matrix))};
}

Dense rows_of(const Dense& all, std::int64_t begin, std::int64_t end) {
  return {end - begin,
          all.cols,
          {all.values.begin() + static_cast<std::ptrdiff_t>(begin * all.cols),
           all.values.begin() + static_cast<std::ptrdiff_t>(end * all.cols)}};
}

/// x of some tokens as the products take it.
Dense x_of(const ExpertsForm& form, const ExpertsInput& input, const std::vector<std::int64_t>& tokens) {
  Dense x{static_cast<std::int64_t>(tokens.size()), form.hidden, {}};
  const std::size_t width = bytes_of_matrix(input.x_dtype, 1, form.hidden);
  for (const std::int64_t token : tokens) {
    const std::byte* row = input.x.data() + static_cast<std::size_t>(token) * width;
    std::vector<double> values(static_cast<std::size_t>(form.hidden));
    if (form.x.code == DType::none) {
      numerics::decode(input.x_dtype, row, std::span<double>(values));
    } else {
      std::vector<std::uint8_t> codes(values.size());
      std::vector<float> scales(static_cast<std::size_t>(form.x.grid.scale_cols(form.hidden)));
      numerics::quantize(input.x_dtype, row, 1, form.hidden, form.hidden, form.x.code, form.x.grid, form.x.quantizer,
                         codes, scales);
      numerics::decode(form.x.code, reinterpret_cast<const std::byte*>(codes.data()), std::span<double>(values));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] *=
            static_cast<double>(scales[static_cast<std::size_t>(form.x.grid.col_of(static_cast<std::int64_t>(i)))]);
    }
    x.values.insert(x.values.end(), values.begin(), values.end());
  }
  return x;
}

/// The suspected expert on the rows that differ.
struct Suspect {
  std::int64_t expert = 0;
  Dense x, gate, up, h, difference;  ///< [rows, ...]; difference is of the expert's own output, without its weight.
};

class Search {
 public:
  Search(const ExpertsSource& source, const Suspect& suspect) : form_(source.form()), suspect_(suspect) {
    const GatedForm& gated = form_.experts;
    if (gated.stored_fused) {
      const Dense both = decode(gated.gate, source.matrix(false, Projection::gate_up, suspect.expert));
      gate_ = rows_of(both, 0, gated.width);
      up_ = rows_of(both, gated.width, 2 * gated.width);
    } else {
      gate_ = decode(gated.gate, source.matrix(false, Projection::gate, suspect.expert));
      up_ = decode(gated.gate, source.matrix(false, Projection::up, suspect.expert));
    }
    down_ = decode(gated.down, source.matrix(false, Projection::down, suspect.expert));
    for (const double value : suspect_.difference.values) square_ += value * value;
  }

  std::vector<Blame::Scale> best() {
    for (const Projection matrix : {Projection::gate, Projection::up, Projection::down}) {
      const Dense& weights = matrix == Projection::gate ? gate_ : matrix == Projection::up ? up_ : down_;
      const numerics::ScaleGrid grid = (matrix == Projection::down ? form_.experts.down : form_.experts.gate)
                                           .scale.grid.resolved(weights.rows, weights.cols);
      for (std::int64_t row = 0; row < grid.scale_rows(weights.rows); ++row)
        for (std::int64_t col = 0; col < grid.scale_cols(weights.cols); ++col)
          try_scale(matrix, weights, grid, row, col);
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const auto& a, const auto& b) { return a.explained > b.explained; });
    while (!found_.empty() && found_.back().explained < found_.front().explained - kAsMuch) found_.pop_back();
    return found_;
  }

 private:
  /// What one block contributes to its product, [rows, block rows].
  Dense part(const Dense& weights, const Dense& a, numerics::ScaleGrid grid, std::int64_t row,
             std::int64_t col) const {
    const std::int64_t n0 = row * grid.group_rows, n1 = std::min(n0 + grid.group_rows, weights.rows);
    const std::int64_t k0 = col * grid.group_cols, k1 = std::min(k0 + grid.group_cols, weights.cols);
    Dense sums{a.rows, n1 - n0, {}};
    for (std::int64_t r = 0; r < a.rows; ++r) {
      for (std::int64_t n = n0; n < n1; ++n) {
        double sum = 0;
        for (std::int64_t k = k0; k < k1; ++k) sum += a.at(r, k) * weights.at(n, k);
        sums.values.push_back(sum);
      }
    }
    return sums;
  }

  void try_scale(Projection matrix, const Dense& weights, numerics::ScaleGrid grid, std::int64_t row,
                 std::int64_t col) {
    const std::int64_t first = row * grid.group_rows;
    const Dense own = part(weights, matrix == Projection::down ? suspect_.h : suspect_.x, grid, row, col);
    if (matrix == Projection::down) return fit(matrix, row, col, own, first, true);
    if (matrix == Projection::up) {
      Dense h = own;
      for (std::int64_t r = 0; r < own.rows; ++r)
        for (std::int64_t i = 0; i < own.cols; ++i)
          h.values[static_cast<std::size_t>(r * own.cols + i)] *= silu(suspect_.gate.at(r, first + i));
      return fit(matrix, row, col, through_down(h, first), 0, false);
    }
    // The gate is not linear: factors over four orders of magnitude, and none at all.
    for (int step = -27; step <= 27; ++step) {
      const double factor = step == -27 ? 0 : std::exp2(step / 4.0);
      if (factor == 1) continue;
      Dense h = own;
      for (std::int64_t r = 0; r < own.rows; ++r) {
        for (std::int64_t i = 0; i < own.cols; ++i) {
          const double gate = suspect_.gate.at(r, first + i);
          h.values[static_cast<std::size_t>(r * own.cols + i)] =
              (silu(gate + (factor - 1) * own.at(r, i)) - silu(gate)) * suspect_.up.at(r, first + i);
        }
      }
      const Dense change = through_down(h, first);
      double left = 0;
      for (std::size_t i = 0; i < change.values.size(); ++i)
        left += std::pow(suspect_.difference.values[i] - change.values[i], 2);
      take(matrix, row, col, factor, 1 - left / square_);
    }
  }

  /// The second product of columns [first, ...) of h.
  Dense through_down(const Dense& h, std::int64_t first) const {
    Dense change{h.rows, down_.rows, {}};
    for (std::int64_t r = 0; r < h.rows; ++r) {
      for (std::int64_t n = 0; n < down_.rows; ++n) {
        double sum = 0;
        for (std::int64_t i = 0; i < h.cols; ++i) sum += h.at(r, i) * down_.at(n, first + i);
        change.values.push_back(sum);
      }
    }
    return change;
  }

  /// A change that is linear in the factor: the best one, by least squares.
  void fit(Projection matrix, std::int64_t row, std::int64_t col, const Dense& change, std::int64_t first,
           bool some) {
    double across = 0, own = 0;
    for (std::int64_t r = 0; r < change.rows; ++r) {
      for (std::int64_t i = 0; i < change.cols; ++i) {
        across += change.at(r, i) * suspect_.difference.at(r, some ? first + i : i);
        own += change.at(r, i) * change.at(r, i);
      }
    }
    if (own > 0) take(matrix, row, col, 1 + across / own, across * across / (own * square_));
  }

  void take(Projection matrix, std::int64_t row, std::int64_t col, double factor, double explained) {
    // The other output has `factor` times our scale: ours is the inverse of it, of what it must have been.
    const Blame::Scale scale{matrix, row, col, factor == 0 ? 0 : 1 / factor, explained};
    const bool again =
        !found_.empty() && found_.back().matrix == matrix && found_.back().row == row && found_.back().col == col;
    if (!again)
      found_.push_back(scale);
    else if (explained > found_.back().explained)
      found_.back() = scale;
  }

  const ExpertsForm& form_;
  const Suspect& suspect_;
  Dense gate_, up_, down_;
  double square_ = 0;
  std::vector<Blame::Scale> found_;
};

/// The tokens that differ, and the experts that they share with each other and with no token that is right.
std::vector<std::int64_t> suspects(const RoutedTokens& routed, std::int64_t top_k, const std::vector<bool>& differs) {
  std::set<std::int64_t> common, innocent;
  bool any = false;
  for (std::size_t t = 0; t < differs.size(); ++t) {
    const auto first = routed.ids.begin() + static_cast<std::ptrdiff_t>(t) * top_k;
    const std::set<std::int64_t> own(first, first + top_k);
    if (!differs[t]) {
      innocent.insert(own.begin(), own.end());
    } else if (!any) {
      common = own;
      any = true;
    } else {
      std::erase_if(common, [&own](std::int64_t id) { return !own.contains(id); });
    }
  }
  // A token may go to the wrong expert and be right all the same, where its weight is tiny: then nobody is innocent.
  std::vector<std::int64_t> guilty;
  for (const std::int64_t id : common)
    if (id >= 0 && !innocent.contains(id)) guilty.push_back(id);
  if (guilty.empty()) guilty.assign(common.begin(), common.end());
  return guilty;
}

/// The tokens whose error, over their size, is more than four times that of the median token.
std::vector<bool> far_ones(const std::vector<double>& other, const Bounded& want) {
  const auto cols = static_cast<std::size_t>(want.cols);
  std::vector<double> errors;
  for (std::size_t first = 0; first < want.value.size(); first += cols) {
    double error = 0, size = 0;
    for (std::size_t i = first; i < first + cols; ++i) {
      error += std::pow(other[i] - want.value[i], 2);
      size += want.value[i] * want.value[i];
    }
    errors.push_back(std::isnan(error) ? HUGE_VAL : size > 0 ? std::sqrt(error / size) : 0);
  }
  std::vector<double> sorted = errors;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  std::vector<bool> far;
  far.reserve(errors.size());
  for (const double error : errors) far.push_back(error > 4 * *middle);
  return far;
}

Dense from(const Bounded& all, const std::vector<std::int64_t>& rows) {
  Dense some{static_cast<std::int64_t>(rows.size()), all.cols, {}};
  for (const std::int64_t row : rows)
    some.values.insert(some.values.end(), all.value.begin() + static_cast<std::ptrdiff_t>(row * all.cols),
                       all.value.begin() + static_cast<std::ptrdiff_t>((row + 1) * all.cols));
  return some;
}

}  // namespace

std::string Blame::text() const {
  std::string text =
      fmt::format("expert {}: all {} tokens that differ{} went there", expert, tokens, most ? " most" : "");
  for (const Scale& scale : scales)
    text +=
        fmt::format("{} scale [{}, {}] of its {}, {:.4g} times what it must have been,",
                    &scale == scales.data() ? ";" : " or", scale.row, scale.col, name_of(scale.matrix), scale.factor);
  if (scales.empty()) return text;
  return text + fmt::format(" would explain {:.1f} % of the difference", scales.front().explained * 100);
}

std::optional<Blame> find_blame(const ExpertsSource& source, const ExpertsInput& input, const RoutedTokens& routed,
                                const ExpertsOracle& oracle, const std::vector<double>& other, const Bounded& want) {
  const ExpertsForm& form = source.form();
  const std::int64_t top_k = form.routing.top_k, cols = want.cols;
  std::vector<bool> differs(static_cast<std::size_t>(want.rows), false);
  for (std::size_t i = 0; i < want.value.size(); ++i)
    if (!(std::fabs(other[i] - want.value[i]) <= want.bound[i])) differs[i / static_cast<std::size_t>(cols)] = true;
  auto count = static_cast<std::size_t>(std::count(differs.begin(), differs.end(), true));
  if (count == 0) return std::nullopt;
  bool most = false;
  if (count == differs.size()) {
    std::vector<bool> far = far_ones(other, want);
    const auto fewer = static_cast<std::size_t>(std::count(far.begin(), far.end(), true));
    most = fewer != 0;
    if (most) {
      differs = std::move(far);
      count = fewer;
    }
  }
  std::optional<Blame> best;
  for (const std::int64_t id : suspects(routed, top_k, differs)) {
    const auto one = std::find_if(oracle.experts.begin(), oracle.experts.end(),
                                  [id](const ExpertOracle& e) { return e.expert == id; });
    if (one == oracle.experts.end()) continue;
    std::vector<std::int64_t> rows, tokens;
    Suspect suspect;
    suspect.expert = id;
    suspect.difference.cols = cols;
    for (std::size_t r = 0; r < one->slots.size() && rows.size() < kMostRows; ++r) {
      const std::int64_t slot = one->slots[r], token = slot / top_k;
      const double weight = static_cast<double>(routed.weights[static_cast<std::size_t>(slot)]);
      if (!differs[static_cast<std::size_t>(token)] || weight == 0) continue;
      rows.push_back(static_cast<std::int64_t>(r));
      tokens.push_back(token);
      for (std::int64_t col = 0; col < cols; ++col) {
        const auto at = static_cast<std::size_t>(token * cols + col);
        suspect.difference.values.push_back((other[at] - want.value[at]) / weight);
      }
    }
    if (rows.empty()) continue;
    suspect.difference.rows = static_cast<std::int64_t>(rows.size());
    suspect.x = x_of(form, input, tokens);
    suspect.gate = from(one->mlp.gate, rows);
    suspect.up = from(one->mlp.up, rows);
    suspect.h = from(one->mlp.h, rows);
    Blame found{id, count, most, Search(source, suspect).best()};
    if (!best || found.scales.front().explained > best->scales.front().explained) best = std::move(found);
  }
  return best;
}

}  // namespace ironcl::layer
