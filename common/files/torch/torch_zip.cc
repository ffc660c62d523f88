#include "common/files/torch/torch_zip.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files/read_file.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

constexpr std::string_view kLocalMark = "PK\x03\x04", kCentralMark = "PK\x01\x02";
constexpr std::string_view kEndMark = "PK\x05\x06", kEnd64Mark = "PK\x06\x06";
constexpr std::string_view kLocatorMark = "PK\x06\x07";
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56, kLocatorBytes = 20, kLongestComment = 0xffff;
constexpr uint16_t kEncrypted = 1, kMasked = 1 << 13, kZip64Extra = 1;
constexpr uint32_t kIn64Bits = 0xffffffff;  // the field is in the extra of zip64

template <typename... Parts>
absl::Status BadZip(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

std::string Quoted(std::string_view name) {
  return absl::StrCat("\"", OneLine(std::string(name)), "\"");
}

// A little-endian number at `at`, inside `bytes` by what the caller has checked.
template <typename Number>
Number NumberAt(std::string_view bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// The magic number of files before 1.6, pickled; torch.serialization MAGIC_NUMBER.
bool IsLegacy(std::string_view file) {
  constexpr std::string_view kMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  return file.size() > 2 && file[0] == '\x80' && file.substr(2, kMagic.size()) == kMagic;
}

absl::Status NoZip(std::string_view file) {
  if (const std::string pointer = LfsPointerText(file.substr(0, 1024)); !pointer.empty()) {
    return BadZip(pointer);
  }
  if (IsLegacy(file)) {
    return BadZip(
        "is of the format before torch 1.6, which is not read; load it with torch.load(..., "
        "weights_only=True) and save it again, best as model.safetensors");
  }
  return BadZip("is no zip as torch.save writes it: ", file.size(),
                " bytes without a directory at their end (truncated?)");
}

struct Directory {
  std::string_view bytes;  // of the headers of all entries
  size_t begin = 0;        // in the file
  uint64_t entries = 0;
};

// Where the record at the end of the file begins: the last mark whose comment reaches to the end.
size_t FindEnd(std::string_view file) {
  if (file.size() < kEndBytes) return std::string_view::npos;
  const size_t last = file.size() - kEndBytes;
  const size_t first = last - std::min(last, kLongestComment);
  for (size_t at = last + 1; at-- > first;) {
    if (file.substr(at, 4) != kEndMark) continue;
    if (at + kEndBytes + NumberAt<uint16_t>(file, at + 20) == file.size()) return at;
  }
  return std::string_view::npos;
}

absl::StatusOr<Directory> FindDirectory(std::string_view file) {
  const size_t end = FindEnd(file);
  if (end == std::string_view::npos) return NoZip(file);
  uint64_t entries = NumberAt<uint16_t>(file, end + 10);
  uint64_t bytes = NumberAt<uint32_t>(file, end + 12), begin = NumberAt<uint32_t>(file, end + 16);
  size_t behind = end;  // of the directory
  if (end >= kLocatorBytes && file.substr(end - kLocatorBytes, 4) == kLocatorMark) {
    const auto at = NumberAt<uint64_t>(file, end - kLocatorBytes + 8);
    if (end < kLocatorBytes + kEnd64Bytes || at > end - kLocatorBytes - kEnd64Bytes ||
        file.substr(at, 4) != kEnd64Mark) {
      return BadZip("has a zip64 directory that is not where its end says, at byte ", at);
    }
    entries = NumberAt<uint64_t>(file, at + 32);
    bytes = NumberAt<uint64_t>(file, at + 40);
    begin = NumberAt<uint64_t>(file, at + 48);
    behind = at;
  }
  if (begin > behind || bytes > behind - begin) {
    return BadZip("has a directory of ", bytes, " bytes at byte ", begin, ", outside its ",
                  file.size(), " bytes");
  }
  if (entries > bytes / kCentralBytes) {
    return BadZip("has a directory of ", bytes, " bytes that claims ", entries, " entries");
  }
  return Directory{.bytes = file.substr(begin, bytes), .begin = begin, .entries = entries};
}

// What the directory says of an entry.
struct Entry {
  std::string_view name;
  uint64_t bytes = 0, stored_bytes = 0, header = 0;  // header: where its local one begins
  std::string_view data = {};
};

// Fields of `entry` that do not fit into 32 bits, in their fixed order. False: not all are there.
bool ReadZip64(std::string_view extra, Entry* entry) {
  std::vector<uint64_t*> fields;
  for (uint64_t* field : {&entry->bytes, &entry->stored_bytes, &entry->header}) {
    if (*field == kIn64Bits) fields.push_back(field);
  }
  if (fields.empty()) return true;
  while (extra.size() >= 4) {
    const auto id = NumberAt<uint16_t>(extra, 0), bytes = NumberAt<uint16_t>(extra, 2);
    if (bytes > extra.size() - 4) return false;
    if (id == kZip64Extra) {
      if (bytes < fields.size() * 8) return false;
      for (size_t i = 0; i < fields.size(); ++i) *fields[i] = NumberAt<uint64_t>(extra, 4 + i * 8);
      return true;
    }
    extra.remove_prefix(size_t{4} + bytes);
  }
  return false;
}

// Of names that would leave a folder, and of those that no file system has.
bool IsPlainName(std::string_view name) {
  if (name.empty() || name.find('\\') != std::string_view::npos ||
      name.find('\0') != std::string_view::npos) {
    return false;
  }
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(name.data(), name.size()), '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

// Takes the header of an entry from the front of `directory`.
absl::StatusOr<Entry> TakeEntry(std::string_view* directory) {
  const std::string_view header = *directory;
  if (header.size() < kCentralBytes || header.substr(0, 4) != kCentralMark) {
    return BadZip("has a directory that ends before its entries do");
  }
  const size_t name_bytes = NumberAt<uint16_t>(header, 28);
  const size_t extra_bytes = NumberAt<uint16_t>(header, 30);
  const size_t all = kCentralBytes + name_bytes + extra_bytes + NumberAt<uint16_t>(header, 32);
  if (all > header.size()) return BadZip("has a directory that ends inside an entry");
  Entry entry{.name = header.substr(kCentralBytes, name_bytes),
              .bytes = NumberAt<uint32_t>(header, 24),
              .stored_bytes = NumberAt<uint32_t>(header, 20),
              .header = NumberAt<uint32_t>(header, 42)};
  if (!IsPlainName(entry.name)) {
    return BadZip("has an entry ", Quoted(entry.name), ", no name of a file inside it");
  }
  const auto flags = NumberAt<uint16_t>(header, 8), method = NumberAt<uint16_t>(header, 10);
  if ((flags & (kEncrypted | kMasked)) != 0) {
    return BadZip("has the encrypted entry ", Quoted(entry.name), "; decrypt it first");
  }
  if (method != 0) {
    return BadZip("has the entry ", Quoted(entry.name), " compressed by method ", method,
                  ", torch.save stores entries uncompressed; load it with torch and save it again");
  }
  const std::string_view extra = header.substr(kCentralBytes + name_bytes, extra_bytes);
  if (!ReadZip64(extra, &entry) || entry.bytes != entry.stored_bytes) {
    return BadZip("has the entry ", Quoted(entry.name), " whose sizes ", entry.bytes, " and ",
                  entry.stored_bytes, " do not agree");
  }
  directory->remove_prefix(all);
  return entry;
}

// Sets entry->data by the header before its bytes, all of which lie in `file`, what is before the
// directory. The end of the entry.
absl::StatusOr<size_t> FindData(std::string_view file, Entry* entry) {
  if (entry->header > file.size() || file.size() - entry->header < kLocalBytes ||
      file.substr(entry->header, 4) != kLocalMark) {
    return BadZip("has the entry ", Quoted(entry->name), ", and nothing of it at byte ",
                  entry->header);
  }
  const size_t name_bytes = NumberAt<uint16_t>(file, entry->header + 26);
  const size_t before = kLocalBytes + name_bytes + NumberAt<uint16_t>(file, entry->header + 28);
  const size_t room = file.size() - entry->header;
  if (before > room || entry->bytes > room - before) {
    return BadZip("has the entry ", Quoted(entry->name), " of ", entry->bytes, " bytes at byte ",
                  entry->header, ", past the end of the ", file.size(),
                  " bytes before the directory (truncated?)");
  }
  if (file.substr(entry->header + kLocalBytes, name_bytes) != entry->name) {
    return BadZip("has the entry ", Quoted(entry->name), " under another name at byte ",
                  entry->header);
  }
  entry->data = file.substr(entry->header + before, entry->bytes);
  return entry->header + before + entry->bytes;
}

// Finds the bytes of all entries, and that none lies in another.
absl::Status PlaceEntries(std::string_view file, std::vector<Entry>* entries) {
  std::sort(entries->begin(), entries->end(),
            [](const Entry& a, const Entry& b) { return a.header < b.header; });
  size_t end = 0;
  for (size_t i = 0; i < entries->size(); ++i) {
    Entry& entry = (*entries)[i];
    if (i > 0 && entry.header < end) {
      return BadZip("has the entries ", Quoted((*entries)[i - 1].name), " and ", Quoted(entry.name),
                    " at the same bytes");
    }
    ASSIGN_OR_RETURN(end, FindData(file, &entry));
  }
  return absl::OkStatus();
}

// "archive/" of "archive/data.pkl".
absl::StatusOr<std::string_view> FolderOf(const std::vector<Entry>& entries) {
  constexpr std::string_view kPickle = "data.pkl";
  std::string_view folder;
  for (const Entry& entry : entries) {
    const size_t slash = entry.name.find('/');
    if (slash == std::string_view::npos || entry.name.substr(slash + 1) != kPickle) continue;
    if (!folder.empty()) return BadZip("is no file of one torch.save: it has two data.pkl");
    folder = entry.name.substr(0, slash + 1);
  }
  if (folder.empty()) return BadZip("is a zip that torch.save did not write: no data.pkl in it");
  return folder;
}

}  // namespace

absl::StatusOr<TorchZip> TorchZip::Read(std::string_view file) {
  ASSIGN_OR_RETURN(const Directory directory, FindDirectory(file));
  std::vector<Entry> entries;
  std::string_view left = directory.bytes;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    ASSIGN_OR_RETURN(entries.emplace_back(), TakeEntry(&left));
  }
  RETURN_IF_ERROR(PlaceEntries(file.substr(0, directory.begin), &entries));
  ASSIGN_OR_RETURN(const std::string_view folder, FolderOf(entries));
  TorchZip zip;
  zip.directory_ = directory.bytes;
  for (const Entry& entry : entries) {
    if (!entry.name.starts_with(folder)) {
      return BadZip("has the entry ", Quoted(entry.name), " beside the folder ", Quoted(folder));
    }
    const std::string name(entry.name.substr(folder.size()));
    if (!zip.entries_.emplace(name, entry.data).second) {
      return BadZip("has two entries ", Quoted(entry.name));
    }
  }
  return zip;
}

std::string_view TorchZip::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? std::string_view() : found->second;
}

}  // namespace coxswain
