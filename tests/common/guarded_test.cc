#include "common/guarded.h"

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "absl/status/statusor.h"
#include "common/parallel_for.h"

namespace coxswain {
namespace {

template <typename Exception>
absl::Status Thrown(const Exception& exception) {
  return Guarded([&]() -> absl::Status { throw exception; });
}

TEST(GuardedTest, GivesWhatTheWorkReturns) {
  EXPECT_TRUE(Guarded([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(Guarded([] { return absl::DataLossError("cut"); }), absl::DataLossError("cut"));
}

TEST(GuardedTest, MakesAStatusOfWhatItThrows) {
  EXPECT_EQ(Thrown(std::bad_alloc()), absl::InternalError("no memory was left for it"));
  EXPECT_EQ(Thrown(std::runtime_error("odd")), absl::InternalError("unexpected error: odd"));
  EXPECT_TRUE(absl::IsInternal(Thrown(7)));
}

// As std::filesystem throws them: whose failure it is follows from the code.
TEST(GuardedTest, KeepsTheCodeOfASystemCall) {
  const auto of = [](int number) {
    return Thrown(std::system_error(number, std::generic_category(), "listing /data"));
  };
  EXPECT_TRUE(absl::IsDataLoss(of(EIO)));
  EXPECT_TRUE(absl::IsNotFound(of(ESTALE)));
  EXPECT_NE(of(EIO).message().find("listing /data"), absl::string_view::npos);
}

TEST(GuardedTest, WritesWhatWasThrownWhereTheResultIsExpected) {
  auto result = std::make_shared<absl::StatusOr<int>>(0);
  GuardedInto(result, [result] { *result = 4; })();
  EXPECT_EQ(**result, 4);
  GuardedInto(result, [] { throw std::bad_alloc(); })();
  EXPECT_TRUE(absl::IsInternal(result->status()));
}

TEST(GuardedTest, ParallelForReturnsWhatItsWorkThrows) {
  const absl::Status status = ParallelFor(100, 4, [](int64_t i) -> absl::Status {
    if (i == 50) throw std::runtime_error("the fiftieth");
    return absl::OkStatus();
  });
  EXPECT_EQ(status, absl::InternalError("unexpected error: the fiftieth"));
}

}  // namespace
}  // namespace coxswain
