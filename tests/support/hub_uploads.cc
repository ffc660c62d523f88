#include "tests/support/hub_uploads.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "common/files/hash.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::support {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

HubReply Refusal(int status, const std::string& error, const std::string& code = "") {
  return {.status = status, .body = Json{{"error", error}}.dump(), .error = error, .code = code};
}

HubReply Answer(const Json& json) { return {.status = 200, .body = json.dump()}; }

void WriteWhole(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// "/models/org/name/VERB/rest" and "/org/name.git/info/lfs/objects/VERB" in parts.
struct Target {
  std::string repository;  // "models/org/name"
  std::string verb;
  std::string rest;  // a revision
};

Target TargetOf(const std::string& path) {
  constexpr char kLfs[] = ".git/info/lfs/objects/";
  if (const size_t at = path.find(kLfs); at != std::string::npos) {
    const std::string id = path.substr(1, at - 1);
    return {id.starts_with("datasets/") ? id : "models/" + id, path.substr(at + sizeof(kLfs) - 1),
            ""};
  }
  for (const std::string verb : {"branch", "preupload", "commit"}) {
    const size_t at = path.find("/" + verb + "/");
    if (path.starts_with("/api/") && at != std::string::npos) {
      return {path.substr(5, at - 5), verb, path.substr(at + verb.size() + 2)};
    }
  }
  return {};
}

}  // namespace

HubUploads::HubUploads(std::string root,
                       std::function<std::shared_ptr<const HubRepositories>()> served,
                       std::function<void()> changed)
    : root_(std::move(root)), served_(std::move(served)), changed_(std::move(changed)) {}

std::string HubUploads::NewFile() {
  const std::lock_guard lock(mu_);
  fs::create_directories(root_ + "/.lfs");
  return root_ + "/.lfs/incoming-" + std::to_string(++names_);
}

std::string HubUploads::Content(const std::string& sha256) const {
  const std::string stored = root_ + "/.lfs/" + sha256;
  if (fs::exists(stored)) return stored;
  const auto served = served_();
  const ServedFile* file = served->FindBlob(sha256);
  return file == nullptr ? "" : file->on_disk;
}

bool HubUploads::IsPrivate(const std::string& repository) const {
  return fs::exists(root_ + "/" + repository + "/.private");
}

HubReply HubUploads::Post(const std::string& path, const std::string& body, const Places& places,
                          int* commits) {
  constexpr char kComplete[] = "/api/complete/";
  const std::lock_guard lock(mu_);
  const Target to = TargetOf(path);
  const Json asked = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (path == "/api/validate-yaml")
    return Answer({{"errors", Json::array()}, {"warnings", Json::array()}});
  if (to.verb != "commit" && asked.is_discarded()) return Refusal(400, "Invalid JSON");
  if (path == "/api/repos/create") return Create(asked);
  if (path.starts_with(kComplete)) return Complete(path.substr(sizeof(kComplete) - 1), asked);
  const auto served = served_();
  if (to.verb.empty() || served->Find(to.repository) == nullptr) {
    return Refusal(404, "Repository not found", "RepoNotFound");
  }
  if (to.verb == "branch") return Branch(to.repository, to.rest);
  if (to.verb == "batch") return Batch(to.repository, asked, places);
  if (to.verb == "verify") return Verify(asked);
  if (served->Find(to.repository, to.rest) == nullptr) {
    return Refusal(404, "Invalid rev id: " + to.rest, "RevisionNotFound");
  }
  if (to.verb == "preupload") return Preupload(to.repository, to.rest, asked);
  return Commit(to.repository, to.rest, body, places, commits);
}

// As the Hub does: a new repository has a branch main with a file .gitattributes.
HubReply HubUploads::Create(const Json& asked) {
  const std::string plural = asked.value("type", "model") + "s";
  const Json owner = asked.value("organization", Json());
  const std::string id = (owner.is_string() ? owner.get<std::string>() : std::string("me")) + "/" +
                         asked.value("name", "");
  const std::string repository = plural + "/" + id;
  if (served_()->Find(repository) != nullptr) {
    HubReply refusal = Refusal(409, "You already created this model repo");
    refusal.body = Json{{"error", refusal.error}, {"url", "https://huggingface.co/" + id}}.dump();
    return refusal;
  }
  WriteWhole(root_ + "/" + repository + "/@main/.gitattributes",
             "*.safetensors filter=lfs diff=lfs merge=lfs -text\n");
  if (asked.value("visibility", "") == "private" || asked.value("private", false)) {
    WriteWhole(root_ + "/" + repository + "/.private", "");
  }
  changed_();
  return Answer({{"url", "https://huggingface.co/" + id}, {"name", id}, {"id", id}});
}

HubReply HubUploads::Branch(const std::string& repository, const std::string& revision) {
  if (served_()->Find(repository, revision) != nullptr) {
    return Refusal(409, "Reference already exists");
  }
  fs::copy(root_ + "/" + repository + "/@main", root_ + "/" + repository + "/@" + revision,
           fs::copy_options::recursive);
  changed_();
  return Answer(Json::object());
}

HubReply HubUploads::Preupload(const std::string& repository, const std::string& revision,
                               const Json& asked) const {
  const auto served = served_();
  const ServedRevision& there = *served->Find(repository, revision);
  const std::string ignores = root_ + "/" + repository + "/@" + revision + "/.gitignore";
  const std::vector<std::string> ignored = absl::StrSplit(ReadFile(ignores), '\n');
  Json files = Json::array();
  for (const Json& file : asked.at("files")) {
    const std::string path = file.at("path");
    Json told = {
        {"path", path},
        {"uploadMode", IsInLfs(path, file.at("size")) ? "lfs" : "regular"},
        {"shouldIgnore", std::find(ignored.begin(), ignored.end(), path) != ignored.end()}};
    for (const ServedFile& one : there.files) {
      if (one.path == path) told["oid"] = one.etag();
    }
    files.push_back(std::move(told));
  }
  return Answer({{"files", std::move(files)}, {"commitOid", there.commit}});
}

HubReply HubUploads::Batch(const std::string& repository, const Json& asked, const Places& places) {
  if (asked.value("operation", "") != "upload") return Refusal(400, "only uploads");
  const Json& transfers = asked.at("transfers");
  const bool in_parts =
      std::find(transfers.begin(), transfers.end(), "multipart") != transfers.end() &&
      places.part_bytes > 0;
  Json objects = Json::array();
  for (const Json& object : asked.at("objects")) {
    const std::string oid = object.at("oid");
    const int64_t bytes = object.at("size");
    Json told = {{"oid", oid}, {"size", bytes}, {"authenticated", true}};
    if (Content(oid).empty()) {
      const std::string upload = std::to_string(++names_) + "-" + oid;
      Json header = Json::object();
      std::string href = places.cdn + "/upload/" + upload + "?X-Amz-Signature=s3cr3t";
      if (in_parts && bytes > places.part_bytes) {
        header["chunk_size"] = std::to_string(places.part_bytes);
        const int64_t parts = 1 + (bytes - 1) / places.part_bytes;
        for (int64_t i = 1; i <= parts; ++i) {
          header[(i < 10 ? "0000" : "000") + std::to_string(i)] =
              places.cdn + "/part/" + upload + "/" + std::to_string(i) + "?X-Amz-Signature=s3cr3t";
        }
        href = places.hub + "/api/complete/" + upload;
      }
      const std::string id = repository.starts_with("models/") ? repository.substr(7) : repository;
      told["actions"] = {{"upload", {{"href", href}, {"header", header}}},
                         {"verify",
                          {{"href", places.hub + "/" + id + ".git/info/lfs/objects/verify"},
                           {"header", Json::object()}}}};
    }
    objects.push_back(std::move(told));
  }
  return Answer({{"transfer", in_parts ? "multipart" : "basic"}, {"objects", std::move(objects)}});
}

// "/upload/N-SHA" and "/part/N-SHA/NUMBER".
HubReply HubUploads::Put(const std::string& path, const std::string& received) {
  const std::string sha256 = Sha256HexOfFile(received).value();
  const std::lock_guard lock(mu_);
  const std::vector<std::string> names = absl::StrSplit(path, '/');
  const std::string upload = names.at(2), oid = upload.substr(upload.find('-') + 1);
  const std::string etag = "\"" + sha256.substr(0, 32) + "\"";
  if (names.at(1) == "part") {
    etags_[upload][std::stoi(names.at(3))] = etag;
    fs::rename(received, root_ + "/.lfs/" + upload + "." + names.at(3));
  } else if (sha256 != oid) {
    fs::remove(received);
    return Refusal(400, "BadDigest");
  } else {
    fs::rename(received, root_ + "/.lfs/" + oid);
  }
  return {.status = 200, .etag = etag};
}

HubReply HubUploads::Complete(const std::string& upload, const Json& asked) {
  const std::string oid = upload.substr(upload.find('-') + 1);
  const std::map<int, std::string>& known = etags_[upload];
  const std::string whole = root_ + "/.lfs/whole-" + upload;
  std::ofstream out(whole, std::ios::binary | std::ios::trunc);
  for (const Json& part : asked.at("parts")) {
    const int number = part.at("partNumber");
    const auto found = known.find(number);
    if (found == known.end() || found->second != part.at("etag")) {
      return Refusal(400, "InvalidPart " + std::to_string(number));
    }
    out << ReadFile(root_ + "/.lfs/" + upload + "." + std::to_string(number));
  }
  out.close();
  if (asked.at("oid") != oid || Sha256HexOfFile(whole).value() != oid) {
    return Refusal(400, "the parts are not " + oid);
  }
  fs::rename(whole, root_ + "/.lfs/" + oid);
  return Answer(Json::object());
}

HubReply HubUploads::Verify(const Json& asked) const {
  const std::string content = Content(asked.at("oid"));
  if (content.empty()) return Refusal(404, "object not found");
  if (static_cast<int64_t>(fs::file_size(content)) != asked.at("size").get<int64_t>()) {
    return Refusal(422, "the object has another size");
  }
  return Answer(Json::object());
}

HubReply HubUploads::Commit(const std::string& repository, const std::string& revision,
                            const std::string& lines, const Places& places, int* commits) {
  const std::string head = served_()->Find(repository, revision)->commit;
  const fs::path folder = root_ + "/" + repository + "/@" + revision;
  std::istringstream in(lines);
  std::vector<std::pair<fs::path, Json>> changes;
  for (std::string line; std::getline(in, line);) {
    const Json entry = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (entry.is_discarded()) return Refusal(400, "Invalid JSON line");
    const Json& value = entry.at("value");
    if (entry.at("key") == "header") {
      const std::string parent = value.value("parentCommit", head);
      if (parent != head) {
        return Refusal(412, "A commit has happened since. Please refresh and try again.");
      }
      continue;
    }
    if (entry.at("key") == "lfsFile" && Content(value.at("oid")).empty()) {
      return Refusal(400, "LFS pointer pointed to a file that does not exist");
    }
    changes.push_back({folder / value.at("path").get<std::string>(), entry});
  }
  for (const auto& [path, entry] : changes) {
    const Json& value = entry.at("value");
    std::string content;
    if (entry.at("key") == "deletedFile") {
      fs::remove(path);
    } else if (entry.at("key") == "lfsFile") {
      const fs::path stored = Content(value.at("oid"));
      fs::create_directories(path.parent_path());
      if (!fs::exists(path) || !fs::equivalent(stored, path)) {
        fs::copy_file(stored, path, fs::copy_options::overwrite_existing);
      }
    } else if (absl::Base64Unescape(value.at("content").get<std::string>(), &content)) {
      WriteWhole(path, content);
    } else {
      return Refusal(400, "no base64");
    }
  }
  changed_();
  ++*commits;
  const std::string commit = served_()->Find(repository, revision)->commit;
  return Answer({{"success", true},
                 {"commitOid", commit},
                 {"commitUrl", places.hub + "/" + repository.substr(repository.find('/') + 1) +
                                   "/commit/" + commit}});
}

}  // namespace coxswain::support
