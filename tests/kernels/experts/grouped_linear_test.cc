// The linear of every expert, alone and, as it is used, between sorting, dispatch and combine.
#include "kernels/experts/grouped_linear.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/experts/expert_rows.h"
#include "kernels/experts/route.h"
#include "tests/kernels/testing.h"
#include "tests/reference/experts.h"

namespace coxswain::kernels {
namespace grouped_linear_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
using Ints = std::vector<int32_t>;

struct Shape {
  int64_t tokens, chosen, experts, in, out;
};

// The experts' part of a block and its backward. Outputs start as NaN: all of them are written.
class ExpertsPass {
 public:
  ExpertsPass(const Shape& shape, const Ints& ids)
      : s_(shape), pairs_(shape.tokens * shape.chosen), ids_(ids) {
    spec_ = {.experts = s_.experts, .in_features = s_.in, .out_features = s_.out};
    order_ = places_ = Ints(Size(pairs_));
    offsets_ = Ints(Size(s_.experts + 1));
    counts_ = Ints(Size(s_.experts));
    SortByExpert({.spec = {.experts = s_.experts, .chosen = s_.chosen},
                  .tokens = s_.tokens,
                  .ids = ids_.data(),
                  .order = order_.data(),
                  .places = places_.data(),
                  .offsets = offsets_.data(),
                  .counts = counts_.data()},
                 nullptr);
  }

  void Forward() {
    DispatchForward({.spec = {.hidden = s_.in, .chosen = s_.chosen},
                     .tokens = s_.tokens,
                     .order = order_.data(),
                     .places = places_.data(),
                     .x = x.data(),
                     .rows = rows_.data()},
                    nullptr);
    GroupedLinearForward({.spec = spec_,
                          .rows = pairs_,
                          .offsets = offsets_.data(),
                          .x = rows_.data(),
                          .weight = w.data(),
                          .bias = bias.data(),
                          .y = outputs_.data()},
                         nullptr);
    CombineForward({.spec = {.hidden = s_.out, .chosen = s_.chosen},
                    .tokens = s_.tokens,
                    .places = places_.data(),
                    .weights = weights.data(),
                    .rows = outputs_.data(),
                    .y = y.data()},
                   nullptr);
  }

  void Backward() {
    CombineBackward({.spec = {.hidden = s_.out, .chosen = s_.chosen},
                     .tokens = s_.tokens,
                     .order = order_.data(),
                     .places = places_.data(),
                     .weights = weights.data(),
                     .rows = outputs_.data(),
                     .dy = dy.data(),
                     .drows = outputs_.data(),
                     .dweights = dweights.data()},
                    nullptr);
    GroupedLinearWeightGradient({.spec = spec_,
                                 .rows = pairs_,
                                 .offsets = offsets_.data(),
                                 .dy = outputs_.data(),
                                 .x = rows_.data(),
                                 .dweight = dw.data(),
                                 .dbias = dbias.data()},
                                nullptr);
    GroupedLinearInputGradient({.spec = spec_,
                                .rows = pairs_,
                                .offsets = offsets_.data(),
                                .dy = outputs_.data(),
                                .weight = w.data(),
                                .dx = rows_.data()},
                               nullptr);
    DispatchBackward({.spec = {.hidden = s_.in, .chosen = s_.chosen},
                      .tokens = s_.tokens,
                      .places = places_.data(),
                      .drows = rows_.data(),
                      .dx = dx.data()},
                     nullptr);
  }

 private:
  Shape s_;
  int64_t pairs_;
  Ints ids_, order_, places_, offsets_, counts_;
  GroupedLinearSpec spec_;
  Floats rows_ = Floats(Size(pairs_ * s_.in), kNan), outputs_ = Floats(Size(pairs_ * s_.out), kNan);

 public:
  Floats x = Normal(s_.tokens * s_.in, 1), w = Normal(s_.experts * s_.out * s_.in, 2);
  Floats bias = Normal(s_.experts * s_.out, 3), weights = Normal(pairs_, 4);
  Floats dy = Normal(s_.tokens * s_.out, 5);
  Floats y = Floats(dy.size(), kNan), dweights = Floats(Size(pairs_), kNan);
  Floats dx = Floats(x.size(), kNan), dw = Floats(w.size(), kNan),
         dbias = Floats(bias.size(), kNan);
};

// Values are below 5. A row of an expert is a sum of K products and a bias, off by (K + 2) u of at
// most m = 25 K + 5; y adds k of them by weight. A dweight is N products with such a row. dx sums k
// times N products of three values; dw T of them; dbias T of two.
void CheckPass(const Shape& s, const Ints& ids) {
  ExpertsPass pass(s, ids);
  {
    ExpectNoAllocation none;
    pass.Forward();
    pass.Backward();
  }
  const std::vector<int64_t> wide_ids(ids.begin(), ids.end());
  const Doubles weights = Double(pass.weights), x = Double(pass.x), w = Double(pass.w);
  const Doubles bias = Double(pass.bias), dy = Double(pass.dy);
  const reference::ExpertsProblem<double> p{s.tokens, s.chosen,        s.experts,      s.in,
                                            s.out,    wide_ids.data(), weights.data(), x.data(),
                                            w.data(), bias.data()};
  const auto d = reference::ExpertsBackward(p, dy.data());
  const auto t = static_cast<double>(s.tokens), k = static_cast<double>(s.chosen);
  const auto in = static_cast<double>(s.in), out = static_cast<double>(s.out);
  const double m = 25 * in + 5;
  ExpectWithin(pass.y, reference::Experts(p), (in + k + 4) * kUnit * k * 5 * m, "y");
  ExpectWithin(pass.dweights, d.weights, (out + in + 4) * kUnit * out * 5 * m, "dweights");
  ExpectWithin(pass.dx, d.x, (out + k + 3) * kUnit * k * out * 125, "dx");
  ExpectWithin(pass.dw, d.w, (t + 3) * kUnit * t * 125, "dw");
  ExpectWithin(pass.dbias, d.bias, (t + 2) * kUnit * t * 25, "dbias");
  for (size_t e = 0; e < Size(s.experts); ++e) {
    if (std::find(ids.begin(), ids.end(), static_cast<int32_t>(e)) != ids.end()) continue;
    for (size_t i = 0; i < Size(s.out * s.in); ++i) {
      ASSERT_EQ(pass.dw[e * Size(s.out * s.in) + i], 0.0f) << "expert " << e << " has no rows";
    }
  }
}

Ints RoutedIds(const Shape& s) {
  const Floats logits = Normal(s.tokens * s.experts, 9);
  Ints ids(Size(s.tokens * s.chosen));
  Floats weights(ids.size());
  RouteForward({.spec = {.experts = s.experts, .chosen = s.chosen},
                .tokens = s.tokens,
                .logits = logits.data(),
                .ids = ids.data(),
                .weights = weights.data()},
               nullptr);
  return ids;
}

TEST(GroupedLinearTest, ExpertsOfABlockMatchTheLoopOverTokens) {
  for (const Shape& s : {Shape{1, 1, 1, 1, 1}, Shape{1, 3, 7, 5, 3}, Shape{9, 2, 4, 7, 5},
                         Shape{13, 4, 4, 3, 9}, Shape{31, 3, 17, 17, 8}, Shape{5, 1, 128, 4, 4}}) {
    CheckPass(s, RoutedIds(s));
  }
  CheckPass({11, 1, 5, 6, 7}, Ints(11, 3));  // all tokens to one expert
  Ints ids = RoutedIds({6, 2, 3, 5, 4});
  ids[4] = ids[5] = ids[10] = ids[11] = -1;  // two rows are padding
  CheckPass({6, 2, 3, 5, 4}, ids);
  CheckPass({3, 2, 2, 3, 3}, Ints(6, -1));
}

TEST(GroupedLinearTest, RowsBehindTheLastAreNotReadAndGiveZeros) {
  const GroupedLinearSpec spec{.experts = 2, .in_features = 2, .out_features = 1};
  const Ints offsets = {0, 1, 1};
  const Floats x = {1, 2, kNan, kNan}, w = {3, 4, kNan, kNan}, dy = {2, kNan};
  Floats y(2, kNan), dx(4, kNan);
  GroupedLinearForward({.spec = spec,
                        .rows = 2,
                        .offsets = offsets.data(),
                        .x = x.data(),
                        .weight = w.data(),
                        .y = y.data()},
                       nullptr);
  EXPECT_EQ(y, (Floats{11, 0}));
  GroupedLinearInputGradient({.spec = spec,
                              .rows = 2,
                              .offsets = offsets.data(),
                              .dy = dy.data(),
                              .weight = w.data(),
                              .dx = dx.data()},
                             nullptr);
  EXPECT_EQ(dx, (Floats{6, 8, 0, 0}));
}

// Experts from `first` on, and other rows as they are.
TEST(GroupedLinearTest, AFewExpertsAtATimeGiveTheSameBits) {
  const GroupedLinearSpec all{.experts = 5, .in_features = 7, .out_features = 3};
  const Ints offsets = {0, 2, 2, 5, 6, 9};
  const int64_t rows = 11;
  const Floats x = Normal(rows * 7, 1), w = Normal(5 * 7 * 3, 2), bias = Normal(5 * 3, 3);
  const Floats dy = Normal(rows * 3, 4);
  const auto run = [&](int64_t at_once, Floats* y, Floats* dx) {
    for (int64_t e = 0; e < 5; e += at_once) {
      GroupedLinearSpec spec = all;
      spec.experts = std::min(at_once, 5 - e);
      const bool last = e + at_once >= 5;
      GroupedLinearForward({.spec = spec,
                            .rows = rows,
                            .offsets = offsets.data() + e,
                            .x = x.data(),
                            .weight = w.data() + e * 21,
                            .bias = bias.data() + e * 3,
                            .y = y->data(),
                            .zeros_behind = last},
                           nullptr);
      GroupedLinearInputGradient({.spec = spec,
                                  .rows = rows,
                                  .offsets = offsets.data() + e,
                                  .dy = dy.data(),
                                  .weight = w.data() + e * 21,
                                  .dx = dx->data(),
                                  .zeros_behind = last},
                                 nullptr);
    }
  };
  Floats y(Size(rows * 3), kNan), dx(Size(rows * 7), kNan);
  run(5, &y, &dx);
  EXPECT_EQ(y[9 * 3], 0.0f);
  EXPECT_EQ(dx[9 * 7], 0.0f);
  for (const int64_t at_once : {1, 2, 4}) {
    Floats few(y.size(), kNan), few_dx(dx.size(), kNan);
    run(at_once, &few, &few_dx);
    EXPECT_EQ(few, y) << at_once;
    EXPECT_EQ(few_dx, dx) << at_once;
  }
  // The middle alone.
  Floats middle(y.size(), 77.0f);
  GroupedLinearForward({.spec = {.experts = 2, .in_features = 7, .out_features = 3},
                        .rows = rows,
                        .offsets = offsets.data() + 2,
                        .x = x.data(),
                        .weight = w.data() + 2 * 21,
                        .bias = bias.data() + 2 * 3,
                        .y = middle.data(),
                        .zeros_behind = false},
                       nullptr);
  for (size_t i = 0; i < middle.size(); ++i) {
    EXPECT_EQ(middle[i], i >= 2 * 3 && i < 6 * 3 ? y[i] : 77.0f) << i;
  }
}

TEST(GroupedLinearTest, WeightGradientsAreAddedOrOverwritten) {
  const GroupedLinearSpec spec{.experts = 2, .in_features = 2, .out_features = 1};
  const Ints offsets = {0, 0, 2};
  const Floats x = {1, 2, 3, 4}, dy = {1, 10};
  GroupedLinearWeightGradientArgs args{
      .spec = spec, .rows = 2, .offsets = offsets.data(), .dy = dy.data(), .x = x.data()};
  Floats dw(4, kNan), dbias(2, kNan);
  args.dweight = dw.data();
  args.dbias = dbias.data();
  GroupedLinearWeightGradient(args, nullptr);
  EXPECT_EQ(dw, (Floats{0, 0, 31, 42}));
  EXPECT_EQ(dbias, (Floats{0, 11}));
  args.accumulate = true;
  dw = {5, 6, 7, 8};
  dbias = {1, 2};
  GroupedLinearWeightGradient(args, nullptr);
  EXPECT_EQ(dw, (Floats{5, 6, 38, 50}));
  EXPECT_EQ(dbias, (Floats{1, 13}));
  args.dweight = nullptr;
  GroupedLinearWeightGradient(args, nullptr);
  EXPECT_EQ(dw, (Floats{5, 6, 38, 50}));
  EXPECT_EQ(dbias, (Floats{1, 24}));
}

TEST(GroupedLinearTest, RefusesOffsetsThatAreNone) {
  const GroupedLinearSpec spec{.experts = 2, .in_features = 1, .out_features = 1};
  Floats values(3);
  for (const Ints& offsets : {Ints{-1, 2, 3}, Ints{0, 2, 1}, Ints{0, 1, 4}}) {
    EXPECT_THROW(GroupedLinearForward({.spec = spec,
                                       .rows = 3,
                                       .offsets = offsets.data(),
                                       .x = values.data(),
                                       .weight = values.data(),
                                       .y = values.data()},
                                      nullptr),
                 std::invalid_argument);
  }
  EXPECT_FALSE(GroupedLinearSupports(
      {.dtype = DType::kBFloat16, .experts = 1, .in_features = 1, .out_features = 1}));
}

}  // namespace
}  // namespace grouped_linear_test
}  // namespace coxswain::kernels
