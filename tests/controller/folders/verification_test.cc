// What is told of the reading of an export.
#include "controller/folders/verification.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

namespace coxswain {
namespace {

const Verification kVerified{.artifact = "adapter",
                             .verified = true,
                             .records = 1,
                             .targets = 12,
                             .difference = 0.25,
                             .bound = 0.5,
                             .bound_from = "from a test",
                             .seconds = 2};
const Verification kSkipped{.artifact = "gguf", .reason = "nothing reads it"};

TEST(VerificationTest, AManifestHasThatOfItsGgufFilesUnderItsOwn) {
  nlohmann::json manifest;
  AddVerification(kVerified, kSkipped, &manifest);
  const nlohmann::json& own = manifest.at("verification");
  EXPECT_EQ(own.at("outcome"), "verified");
  EXPECT_EQ(own.at("difference"), 0.25);
  EXPECT_EQ(own.at("bound"), 0.5);
  EXPECT_EQ(own.at("bound_from"), "from a test");
  EXPECT_FALSE(own.contains("reason"));
  const nlohmann::json skipped = {{"outcome", "skipped"}, {"reason", "nothing reads it"}};
  EXPECT_EQ(own.at("gguf"), skipped);
}

TEST(VerificationTest, OfNothingAManifestSaysNothing) {
  nlohmann::json manifest = {{"job", "a"}};
  AddVerification({}, {}, &manifest);
  EXPECT_FALSE(manifest.contains("verification"));
}

TEST(VerificationTest, PeopleReadTheFigureOrTheReason) {
  EXPECT_EQ(VerificationText(ToWire(kVerified)),
            "adapter verified on 1 record (12 targets): largest difference 0.25, bound 0.5, from a "
            "test");
  EXPECT_EQ(VerificationText(ToWire(kSkipped)), "gguf skipped: nothing reads it");
}

}  // namespace
}  // namespace coxswain
