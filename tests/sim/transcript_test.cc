// A schedule is its seed: it plays the same every time, down to the transcript that a failure
// prints. COXSWAIN_SIM_WRITE=1 writes the golden ones anew, for a review of what changed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "common/logging.h"
#include "tests/sim/schedule.h"

namespace coxswain::sim {
namespace {

class TranscriptTest : public testing::TestWithParam<uint64_t> {
 protected:
  static void SetUpTestSuite() { log::Init("sim", log::Level::kError); }

  static std::string TranscriptOf(uint64_t seed) {
    return Play(DrawSchedule(seed), {}, nullptr).transcript;
  }
};

TEST_P(TranscriptTest, IsTheGoldenOne) {
  const std::string path = "tests/sim/golden/seed_" + std::to_string(GetParam()) + ".txt";
  const std::string transcript = TranscriptOf(GetParam());
  if (std::getenv("COXSWAIN_SIM_WRITE") != nullptr) std::ofstream(path) << transcript;
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(transcript, golden.str());
}

TEST_P(TranscriptTest, IsTheSameASecondTime) {
  EXPECT_EQ(TranscriptOf(GetParam()), TranscriptOf(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, TranscriptTest, testing::Values(2, 11, 27));

}  // namespace
}  // namespace coxswain::sim
