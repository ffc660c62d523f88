// The functions of kernels/c_api/scores.h on the device: the head against sums in double of the
// same rounded inputs, the loss against the terms of kernels/loss/score_terms.h on the host.
#include <cmath>
#include <vector>

#include "kernels/loss/score_terms.h"
#include "tests/kernels/cuda/c_api/c_api_twins.h"

namespace coxswain::kernels {
namespace gpu_c_api_scores_test {
namespace {

constexpr int64_t kTokens = 300, kWidth = 777, kLabels = 5, kDocuments = 64;

// Every fourth row; some places are empty.
std::vector<int32_t> Rows() {
  std::vector<int32_t> rows;
  for (int32_t i = 0; i < kDocuments; ++i) rows.push_back(i % 9 == 4 ? -1 : 4 * i);
  return rows;
}

Floats RoundedTo(DType dtype, const Floats& values) { return DeviceTensor(dtype, values).Read(); }

class CApiScoresGpuTest : public testing::TestWithParam<DType> {
 protected:
  const DType dtype_ = GetParam();
  const Floats x_ = RoundedTo(dtype_, Normal(kTokens*kWidth, 1, dtype_)),
               w_ = RoundedTo(dtype_, Normal(kLabels*kWidth, 2, dtype_)),
               d_ = Normal(kDocuments * kLabels, 3, DType::kFloat32);
  const std::vector<int32_t> host_rows_ = Rows();
  const DeviceTensor x{dtype_, x_}, w{dtype_, w_};
  const DeviceValues<int32_t> rows_{host_rows_};
  const int32_t c_dtype_ = dtype_ == DType::kFloat32 ? COXSWAIN_FLOAT32 : COXSWAIN_BFLOAT16;
};

// Sums are in double and rounded once to float32.
TEST_P(CApiScoresGpuTest, Scores) {
  const DeviceValues<float> scores(std::vector<float>(Size(kDocuments * kLabels), 7.0f));
  coxswain_score_head_forward_args args{};
  args.dtype = c_dtype_;
  args.width = kWidth;
  args.labels = kLabels;
  args.documents = kDocuments;
  args.rows = rows_.data();
  args.x = x.data();
  args.weight = w.data();
  args.scores = scores.data();
  EXPECT_OK(coxswain_score_head_forward(&args, nullptr));
  Synchronize(nullptr);
  const std::vector<float> got = scores.Read();
  for (int64_t i = 0; i < kDocuments; ++i) {
    const int32_t row = host_rows_[Size(i)];
    for (int64_t l = 0; l < kLabels; ++l) {
      double want = 0;
      for (int64_t h = 0; h < kWidth && row >= 0; ++h) {
        want += static_cast<double>(x_[Size(row * kWidth + h)]) * w_[Size(l * kWidth + h)];
      }
      ASSERT_NEAR(got[Size(i * kLabels + l)], want, 1e-7 * (1 + std::abs(want))) << i << " " << l;
    }
  }
}

TEST_P(CApiScoresGpuTest, Gradients) {
  const DeviceValues<float> d(d_), scale(std::vector<float>{0.5f}),
      dw(std::vector<float>(Size(kLabels * kWidth), 1.0f));
  const DeviceTensor dx(dtype_, Floats(Size(kTokens * kWidth), 0.25f));
  coxswain_score_head_backward_args args{};
  args.dtype = c_dtype_;
  args.width = kWidth;
  args.labels = kLabels;
  args.documents = kDocuments;
  args.rows = rows_.data();
  args.x = x.data();
  args.weight = w.data();
  args.dscores = d.data();
  args.scale = scale.data();
  args.dx = dx.data();
  args.dweight = dw.data();
  args.accumulate = 1;
  EXPECT_OK(coxswain_score_head_backward(&args, nullptr));
  Synchronize(nullptr);
  const std::vector<float> got_dw = dw.Read();
  const Floats got_dx = dx.Read();
  const double unit = dtype_ == DType::kFloat32 ? 1e-7 : 0x1p-8;
  for (int64_t h = 0; h < kWidth; ++h) {
    for (int64_t l = 0; l < kLabels; ++l) {
      double want = 0;
      for (int64_t i = 0; i < kDocuments; ++i) {
        const int32_t row = host_rows_[Size(i)];
        if (row >= 0) {
          want += static_cast<double>(d_[Size(i * kLabels + l)]) * x_[Size(row * kWidth + h)];
        }
      }
      ASSERT_NEAR(got_dw[Size(l * kWidth + h)], 1 + 0.5 * want, 2e-7 * (2 + std::abs(want)));
    }
    double want = 0;
    for (int64_t l = 0; l < kLabels; ++l) {
      want += static_cast<double>(d_[Size(3 * kLabels + l)]) * w_[Size(l * kWidth + h)];
    }
    ASSERT_NEAR(got_dx[Size(12 * kWidth + h)], 0.5 * want, unit * std::abs(want)) << h;
    ASSERT_EQ(got_dx[Size(1 * kWidth + h)], 0.25f) << "no document has this row";
  }
  args.documents = 0;
  args.accumulate = 0;
  EXPECT_OK(coxswain_score_head_backward(&args, nullptr));
  Synchronize(nullptr);
  EXPECT_EQ(dw.Read(), std::vector<float>(Size(kLabels * kWidth), 0.0f));
}

// Pairs, classes, labels and numbers: slopes have the bits of the host, sums another order.
TEST_P(CApiScoresGpuTest, Losses) {
  for (const ScoreTerm type : {ScoreTerm::kBradleyTerry, ScoreTerm::kSingleLabel,
                               ScoreTerm::kMultiLabel, ScoreTerm::kRegression}) {
    const int64_t labels = type == ScoreTerm::kBradleyTerry ? 1 : kLabels;
    ScoreLossArgs host{.spec = {.type = type, .labels = labels, .centre = 0.01},
                       .documents = kDocuments};
    std::vector<int32_t> rows = Rows();
    for (size_t i = 0; i < rows.size(); i += 2) {
      if (type == ScoreTerm::kBradleyTerry && rows[i + 1] < 0) rows[i] = -1;
    }
    const std::vector<float> scores = Normal(kDocuments * labels, 5, DType::kFloat32);
    std::vector<float> values(Size(kDocuments * ScoreValues(host.spec)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 2);
    std::vector<float> slopes(scores.size(), 0.0f);
    host.scores = scores.data();
    host.values = values.data();
    host.dscores = slopes.data();
    double loss = 0;
    PreferenceSums reports;
    for (int64_t i = 0; i < kDocuments; i += DocumentsPerScore(host.spec)) {
      if (rows[Size(i)] < 0) continue;
      const ScoreValue value = ValueOfScores(host, i);
      loss += value.loss;
      AddReport(value.report, &reports);
    }
    const DeviceValues<int32_t> device_rows(rows);
    const DeviceValues<float> s(scores), v(values), d(std::vector<float>(scores.size(), 7.0f));
    const DeviceValues<double> sums(std::vector<double>(1 + COXSWAIN_PREFERENCE_SUMS));
    coxswain_score_loss_args args{};
    args.type = static_cast<int32_t>(type);
    args.labels = labels;
    args.centre = 0.01;
    args.documents = kDocuments;
    args.rows = device_rows.data();
    args.scores = s.data();
    args.values = v.data();
    args.loss = sums.data();
    args.reports = sums.data() + 1;
    args.dscores = d.data();
    EXPECT_OK(coxswain_score_loss(&args, nullptr));
    Synchronize(nullptr);
    const std::vector<double> got = sums.Read();
    EXPECT_NEAR(got[0], loss, 1e-11 * (1 + loss)) << args.type;
    EXPECT_NEAR(got[3], reports.accuracies, 1e-11 * kDocuments) << args.type;
    EXPECT_EQ(got[6], reports.chosen) << args.type;
    const std::vector<float> got_slopes = d.Read();
    for (size_t i = 0; i < slopes.size(); ++i) {
      ASSERT_NEAR(got_slopes[i], slopes[i], 1e-7 * (1 + std::abs(slopes[i]))) << args.type;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CApiScoresGpuTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16), [](const auto& info) {
                           return info.param == DType::kFloat32 ? "Float32" : "BFloat16";
                         });

}  // namespace
}  // namespace gpu_c_api_scores_test
}  // namespace coxswain::kernels
