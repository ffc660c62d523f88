// Bytes of TensorBoard's event files: each entry is a record of TFRecord's framing.
#ifndef COXSWAIN_CONTROLLER_TRACKERS_EVENT_FILE_H_
#define COXSWAIN_CONTROLLER_TRACKERS_EVENT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "controller/trackers/point.h"

namespace coxswain::trackers {

// CRC-32C (Castagnoli) of `bytes`, as RFC 3720 defines it.
uint32_t Crc32c(std::string_view bytes);

// length (8 bytes), masked CRC of the length, data, masked CRC of the data; little-endian.
// Source: TensorFlow, tsl/lib/io/record_writer.h; the mask: tsl/lib/hash/crc32c.h.
std::string FramedRecord(std::string_view data);

// The entry with which every file begins.
std::string FirstEntry(int64_t unix_ms);
std::string PointEntry(const Point& point);
// What was written from `step` on is taken back: readers forget it.
std::string TakenBackEntry(int64_t step, int64_t unix_ms);

}  // namespace coxswain::trackers

#endif  // COXSWAIN_CONTROLLER_TRACKERS_EVENT_FILE_H_
