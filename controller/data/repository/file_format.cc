#include "controller/data/repository/file_format.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"

namespace coxswain::data {
namespace {

struct Format {
  std::string_view name;
  std::string_view ends;    // with spaces between
  bool upper_case = false;  // its ends are known in capitals, too
};

constexpr std::array<Format, 26> kFormats = {{
    {"csv", "csv"},
    {"tsv", "tsv"},
    {"json", "json jsonl ndjson"},
    {"parquet", "parquet geoparquet gpq"},
    {"arrow", "arrow"},
    {"text", "txt"},
    {"conll", "conll"},
    {"conllu", "conllu"},
    {"webdataset", "tar"},
    {"xml", "xml"},
    {"hdf5", "hdf5 h5"},
    {"eval", "eval"},
    {"harbor", "toml md"},
    {"lance", "lance"},
    {"tsfile", "tsfile"},
    {"vortex", "vortex"},
    {"fasta", "fa fasta fna ffn faa frn afa"},
    {"genbank", "gb gbk genbank"},
    {"fastq", "fq fastq"},
    {"mmcif", "cif mmcif"},
    {"pdb", "pdb ent", true},
    {"imagefolder",
     "blp bmp dib bufr cur pcx dcx dds ps eps fit fits fli flc ftc ftu gbr gif grib png apng jp2 "
     "j2k jpc jpf jpx j2c icns ico im iim tif tiff jfif jpe jpg jpeg msp pcd pxr pbm pgm ppm pnm "
     "psd bw rgb rgba sgi ras tga icb vda vst webp wmf emf xbm xpm",
     true},
    {"audiofolder",
     "mpg aiff au avr caf flac htk svx mat4 mat5 mpc2k ogg paf pvf raw rf64 sd2 sds ircam voc w64 "
     "wav nist wavex wve xi mp3 opus 3gp 3g2 asf flv m4v webm f4v wmv wma ogm mxf nut",
     true},
    {"videofolder", "mpeg avi mp4 mov mkv", true},
    {"meshfolder", "glb gltf ply stl", true},
    {"documents", "pdf nii", true},
}};

constexpr std::string_view kArchive = "zip";
// Of formats that keep tables beside their files.
constexpr std::array<std::string_view, 3> kTableEnds = {"idx", "manifest", "txn"};
constexpr std::array<std::string_view, 6> kTables = {"instruction.md",   "latest_version_hint.json",
                                                     "metadata.csv",     "metadata.jsonl",
                                                     "metadata.parquet", "task.toml"};
// Of as many files the favourite is the last.
constexpr std::array<std::string_view, 7> kFavourites = {"csv",    "json",  "jsonl",  "arrow",
                                                         "vortex", "lance", "parquet"};

// The words between spaces.
std::vector<std::string_view> WordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

const std::unordered_map<std::string_view, const Format*>& FormatsByEnd() {
  static const auto* const kByEnd = [] {
    auto* by_end = new std::unordered_map<std::string_view, const Format*>();
    for (const Format& format : kFormats) {
      for (const std::string_view end : WordsOf(format.ends)) by_end->emplace(end, &format);
    }
    return by_end;
  }();
  return *kByEnd;
}

std::string_view NameOfPath(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

// "gz" and "csv" of "a.csv.gz", in their order.
std::vector<std::string> EndsOf(std::string_view path) {
  std::string_view name = NameOfPath(path);
  std::vector<std::string> ends;
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    name.remove_prefix(dot + 1);
    ends.emplace_back(name.substr(0, name.find('.')));
  }
  return ends;
}

// Null: none has files that end so.
const Format* FormatOfEnd(const std::string& end) {
  const auto found = FormatsByEnd().find(end);
  if (found != FormatsByEnd().end()) return found->second;
  const auto lower = FormatsByEnd().find(absl::AsciiStrToLower(end));
  const bool in_capitals = lower != FormatsByEnd().end() && lower->second->upper_case &&
                           absl::AsciiStrToUpper(end) == end;
  return in_capitals ? lower->second : nullptr;
}

bool IsDataEnd(const std::string& end) {
  return end == kArchive || FormatOfEnd(end) != nullptr ||
         std::find(kTableEnds.begin(), kTableEnds.end(), end) != kTableEnds.end();
}

}  // namespace

bool IsDataFile(std::string_view path) {
  const std::vector<std::string> ends = EndsOf(path);
  return std::any_of(ends.begin(), ends.end(), IsDataEnd);
}

std::string FormatOf(const std::vector<std::string>& files) {
  std::map<std::pair<std::string, bool>, int64_t> counts;  // by end and whether it is no table
  for (const std::string& file : files) {
    const bool table = std::find(kTables.begin(), kTables.end(), NameOfPath(file)) != kTables.end();
    for (const std::string& end : EndsOf(file)) ++counts[{absl::AsciiStrToLower(end), !table}];
  }
  std::tuple<bool, int64_t, int64_t, std::string> best = {};
  std::string_view found;
  for (const auto& [key, count] : counts) {
    const auto& [end, is_data] = key;
    const Format* format = FormatOfEnd(end);
    if (format == nullptr && end != kArchive) continue;
    const int64_t favourite =
        std::find(kFavourites.begin(), kFavourites.end(), end) - kFavourites.begin();
    const std::tuple<bool, int64_t, int64_t, std::string> rank = {
        is_data, count, favourite == std::ssize(kFavourites) ? -1 : favourite, end};
    if (!found.empty() && rank <= best) continue;
    best = rank;
    found = format == nullptr ? kArchive : format->name;
  }
  return std::string(found);
}

bool IsOfFormat(std::string_view path, std::string_view format) {
  for (const std::string& end : EndsOf(path)) {
    if (end == kArchive) return true;
    const Format* of_end = FormatOfEnd(end);
    if (of_end == nullptr) continue;
    if (of_end->name == format) return true;
    // The library reads both by one module.
    if ((format == "csv" && of_end->name == "tsv") || (format == "tsv" && of_end->name == "csv")) {
      return true;
    }
  }
  return false;
}

}  // namespace coxswain::data
