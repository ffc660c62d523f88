#include "controller/status_page/picture.h"

#include <gtest/gtest.h>

#include <limits>

namespace coxswain::status_page {
namespace {

class PictureTest : public testing::Test {
 protected:
  void Step(History* history, int64_t finished, double loss) {
    v1::JobEvent event;
    event.set_id(++id_);
    event.set_type("StepDone");
    event.mutable_step_done()->set_step(finished - 1);
    event.mutable_step_done()->set_loss(loss);
    event.mutable_step_done()->set_grad_norm(1);
    history->Add(event);
  }
  void Eval(History* history, int64_t finished, double loss) {
    v1::JobEvent event;
    event.set_id(++id_);
    event.set_type("EvalDone");
    event.mutable_eval_done()->set_step(finished);
    event.mutable_eval_done()->set_eval_loss(loss);
    history->Add(event);
  }
  static size_t Count(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  }

  int64_t id_ = 0;
};

TEST_F(PictureTest, EachPanelHasALineForEachJobInOneBox) {
  History a, b;
  for (const int64_t step : {1, 2, 3}) Step(&a, step, 4 - static_cast<double>(step));
  for (const int64_t step : {1, 2}) Step(&b, step, 3);
  Eval(&a, 2, 2);
  const std::string svg = PictureSvg({{"first", &a}, {"second", &b}});
  EXPECT_EQ(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\""), 0u);
  EXPECT_EQ(Count(svg, "<path fill=\"none\""), 8u) << "two jobs in four panels";
  EXPECT_EQ(Count(svg, "<circle"), 1u);
  // Loss 3, 2, 1 at steps 1, 2, 3 from corner to corner; 3 and 3 of the other as high as the first.
  EXPECT_NE(svg.find("d=\"M80.0 82.0L460.0 162.0L840.0 242.0\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("d=\"M80.0 82.0L460.0 82.0\""), std::string::npos);
  EXPECT_NE(svg.find("cx=\"460.0\" cy=\"162.0\""), std::string::npos);
}

TEST_F(PictureTest, JobsAreToldApart) {
  History history;
  Step(&history, 1, 1);
  Step(&history, 2, 1);
  std::vector<PlottedJob> jobs;
  for (int i = 0; i < 9; ++i) jobs.push_back({"job-" + std::to_string(i), &history});
  const std::string svg = PictureSvg(jobs);
  EXPECT_EQ(Count(svg, "stroke=\"#0072b2\""), 10u) << "in legend and panels, of two jobs";
  EXPECT_EQ(Count(svg, "stroke=\"#0072b2\" stroke-dasharray"), 5u) << "of the second of them";
  for (const PlottedJob& job : jobs) EXPECT_EQ(Count(svg, ">" + job.label + "<"), 1u);
}

TEST_F(PictureTest, AValueThatIsNotFiniteLeavesAGap) {
  History history;
  Step(&history, 1, 3);
  Step(&history, 2, std::numeric_limits<double>::quiet_NaN());
  Step(&history, 3, 1);
  EXPECT_NE(PictureSvg({{"a", &history}}).find("d=\"M80.0 64.0M840.0 224.0\""), std::string::npos);
}

TEST_F(PictureTest, AJobWithoutStepsHasNone) {
  const History history;
  EXPECT_EQ(Count(PictureSvg({{"a", &history}}), "no step yet"), 4u);
}

// Invariant page-3.
TEST_F(PictureTest, ALabelIsNoMarkup) {
  const History history;
  const std::string svg = PictureSvg({{"<script>&\"\n\x1b[31m" + std::string(500, 'x'), &history}});
  EXPECT_EQ(svg.find("<script"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt;&amp;&quot;"), std::string::npos);
  EXPECT_EQ(svg.find('\x1b'), std::string::npos);
  EXPECT_LT(svg.size(), 2000u);
}

}  // namespace
}  // namespace coxswain::status_page
