#include "bench/worker/engine/step_text.h"

#include <cstdio>
#include <string>

#include "bench/report.h"

namespace coxswain::bench {

using Json = nlohmann::ordered_json;

void PrintRow(const Json& r) {
  const auto number = [&](const char* path) {
    return r.at(Json::json_pointer(path)).get<double>();
  };
  const double rate = number("/tokens_per_second"), goal = number("/goal");
  std::printf("  speed       %.0f tokens/s (%.0f .. %.0f), %.1f ms a step, %.0f steps after %.0f",
              rate, number("/tokens_per_second_range/0"), number("/tokens_per_second_range/1"),
              number("/ms_per_step"), number("/steps_timed"), number("/steps_warm_up"));
  if (goal > 0) std::printf("; goal %.0f: %s", goal, rate >= goal ? "met" : "MISSED");
  if (r.contains("host_waits")) {
    std::printf("\n  host waits  %.0f %s", number("/host_waits/count"),
                r["host_waits"]["calls"].get<std::string>().c_str());
  }
  if (r.contains("energy")) {
    std::printf("\n  energy      %.0f J a step, %.0f W, %.0f tokens/J",
                number("/energy/joules_per_step"), number("/energy/watts"),
                number("/energy/tokens_per_joule"));
  }
  std::printf("\n  device      forward %.1f, backward %.1f, optimizer %.1f, step %.1f ms\n",
              number("/device_ms/forward"), number("/device_ms/backward"),
              number("/device_ms/optimizer"), number("/device_ms/step"));
  std::printf("  loss        %.4f -> %.4f, gradient norm %.4f -> %.4f\n", number("/loss/0"),
              number("/loss/1"), number("/grad_norm/0"), number("/grad_norm/1"));
  std::printf("  parameters  %.0f trainable, %.0f expected, %.0f in all\n",
              number("/parameters/trainable"), number("/parameters/expected"),
              number("/parameters/total"));
  const double peak = number("/memory_gib/peak"), planned = number("/memory_gib/plan");
  std::printf("  memory      peak %.2f GiB, plan %.2f (%+.1f %%)%s\n", peak, planned,
              100 * (peak / planned - 1),
              r["on_device"].get<bool>() ? "" : ", of the whole process");
  std::printf("  dtypes      %s\n  layout      %s\n", r["dtypes"].dump().c_str(),
              r["layout"].dump().c_str());
  std::printf("  choices     %s\n", r["choices"].get<std::string>().c_str());
  for (const char* when : {"gpu_before", "gpu_under_load", "gpu_after"}) {
    if (!r[when].is_null()) std::printf("  %-11s %s\n", when + 4, GpuStateText(r[when]).c_str());
  }
}

}  // namespace coxswain::bench
