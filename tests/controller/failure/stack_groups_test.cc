// What stacks of different processes have in common.
#include "controller/failure/stack_groups.h"

#include <gtest/gtest.h>

namespace coxswain::failure {
namespace {

std::string ByGdb(const std::string& numbers, const std::string& top) {
  return "stacks of process " + numbers + " by gdb:\n[New LWP " + numbers + "]\n\nThread 2 (LWP " +
         numbers + " \"grpc\"):\n#0  0x0000" + numbers + " in epoll_wait () from /lib/libc.so.6\n" +
         "\nThread 1 (Thread 0x7f" + numbers + " (LWP " + numbers + ") \"worker\"):\n#0  0x0000" +
         numbers + " in " + top + "\n#1  0x0000" + numbers +
         " in coxswain::agent::Agent::Execute(std::shared_ptr<coxswain::E> const&, int) ()\n";
}

TEST(NormalStacksTest, LeavesOutWhatDiffersFromProcessToProcess) {
  const std::string normal = NormalStacks(ByGdb("12", "recv () from /usr/lib/libc.so.6"));
  EXPECT_EQ(normal, "worker\n    recv (libc.so.6)\n    coxswain::agent::Agent::Execute\n");
  EXPECT_EQ(NormalStacks(ByGdb("9876", "recv () from /lib/libc.so.6")), normal);
  EXPECT_NE(NormalStacks(ByGdb("12", "sgemm_kernel ()")), normal);
}

TEST(NormalStacksTest, NamesAreShortAndKeepWhatTellsThemApart) {
  const auto name = [](const std::string& frame) {
    const std::string normal =
        NormalStacks("Thread 1 (LWP 1 \"w\"):\n#0  0x01 in coxswain::" + frame + "\n");
    return normal.substr(normal.find("coxswain::") + 10);
  };
  EXPECT_EQ(name("A<int, B<C> >::Run(std::vector<int> const&) ()"), "A<>::Run\n");
  EXPECT_EQ(name("(anonymous namespace)::Call(int) ()"), "(anonymous namespace)::Call\n");
  EXPECT_EQ(name("F::operator()() const ()"), "F::operator()\n");
  EXPECT_EQ(name("Loop::Run()::{lambda(int)#1}::f(int) ()"), "Loop::Run\n");
  EXPECT_EQ(name("Plain () from /opt/lib/libours.so"), "Plain (libours.so)\n");
}

// gRPC's pool may have any number of threads; the one that tells the dump stands where no other
// rank's does.
TEST(NormalStacksTest, ThreadsOfLibrariesAndOfTheDumpDoNotCount) {
  const std::string one = ByGdb("1", "recv ()");
  const std::string more = one + "\nThread 3 (LWP 9 \"grpc\"):\n#0  0x1 in futex_wait ()\n" +
                           "\nThread 4 (LWP 8 \"worker\"):\n#0  0x2 in coxswain::agent::" +
                           "Agent::DumpJson[abi:cxx11]() const ()\n";
  EXPECT_EQ(NormalStacks(more), NormalStacks(one));
}

TEST(NormalStacksTest, WhatRestsDoesNotCountWhereACommandIsCarriedOut) {
  const std::string beats =
      "\nThread 5 (LWP 7 \"worker\"):\n#0  0x1 in futex_wait ()\n"
      "#1  0x2 in coxswain::agent::RegistryClient::Beat() ()\n";
  EXPECT_EQ(NormalStacks(ByGdb("1", "recv ()") + beats), NormalStacks(ByGdb("1", "recv ()")));
  EXPECT_EQ(NormalStacks(beats),
            "worker\n    futex_wait\n    coxswain::agent::RegistryClient::Beat\n");
}

TEST(NormalStacksTest, WithoutFunctionsOfOursEveryThreadCounts) {
  EXPECT_EQ(NormalStacks("stacks of process 5 from /proc (gdb is not installed):\n"
                         "thread 5 worker  State:\tS (sleeping)  wchan: futex_wait\n"
                         "thread 6 worker  State:\tS (sleeping)  wchan: futex_wait\n"
                         "thread 7 grpc  State:\tS (sleeping)  wchan: ep_poll\n"),
            "grpc  State:\tS (sleeping)  wchan: ep_poll\n"
            "worker  State:\tS (sleeping)  wchan: futex_wait\n");
  EXPECT_EQ(NormalStacks(""), "");
  EXPECT_EQ(NormalStacks("#0 a frame of no thread\nthread\nThread"), "");
  EXPECT_EQ(NormalStacks("Thread 1\n#\n#0\n"), "thread\n    ??\n    ??\n");
}

TEST(GroupStacksTest, TheMostRanksComeFirst) {
  const auto groups = GroupStacks({{0, ByGdb("1", "recv ()")},
                                   {1, ByGdb("2", "sgemm ()")},
                                   {2, ByGdb("3", "recv ()")},
                                   {3, ""},
                                   {4, ByGdb("4", "poll ()")}});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(groups[1].ranks, std::vector<int>{1});
  EXPECT_EQ(groups[2].ranks, std::vector<int>{4});
  EXPECT_NE(groups[1].stacks.find("sgemm"), std::string::npos);
  EXPECT_TRUE(GroupStacks({}).empty());
}

}  // namespace
}  // namespace coxswain::failure
