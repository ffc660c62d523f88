#include "common/net/metrics.h"

#include <gtest/gtest.h>

#include "common/identity.h"
#include "prometheus/counter.h"
#include "tests/support/http_request.h"

namespace coxswain {
namespace {

TEST(MetricsServerTest, ServesTheRegistryAtTheBoundPort) {
  auto registry = std::make_shared<prometheus::Registry>();
  AddProcessMetrics("worker", registry.get());
  auto& tokens = prometheus::BuildCounter()
                     .Name("coxswain_worker_train_tokens_total")
                     .Register(*registry)
                     .Add({{"rank", "0"}});
  auto server = ServeMetrics("127.0.0.1:0", registry);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_NE((*server)->address(), "127.0.0.1:0");
  tokens.Increment(2048);
  const std::string text = support::Scrape((*server)->address());
  EXPECT_NE(text.find("coxswain_worker_train_tokens_total{rank=\"0\"} 2048"), std::string::npos)
      << text;
  EXPECT_NE(text.find("version=\"" + std::string(BuildVersion()) + "\""), std::string::npos);
  EXPECT_NE(text.find("process_start_time_seconds "), std::string::npos);
}

TEST(MetricsServerTest, ServesNothingElse) {
  auto server = ServeMetrics("127.0.0.1:0", std::make_shared<prometheus::Registry>());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(support::Ask((*server)->address(), "GET / HTTP/1.1\r\n\r\n").rfind("HTTP/1.1 404 ", 0),
            0u);
}

}  // namespace
}  // namespace coxswain
