#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/config/parser/job_parser.h"
#include "common/faults/fault_point.h"
#include "common/files/hash.h"
#include "common/guarded.h"
#include "common/logging.h"
#include "common/status_macros.h"
#include "controller/api/job_replies.h"
#include "controller/api/operations.h"
#include "controller/checkpoint/goes_on.h"
#include "controller/driver/output/output_claim.h"
#include "controller/driver/records/make_events.h"
#include "controller/folders/output_place.h"
#include "controller/planner/adapters/adapter_settings.h"
#include "controller/sources/fetch_sources.h"
#include "controller/sources/kept_revisions.h"

namespace coxswain::api {
namespace {

constexpr int kMostDraws = 100;  // of an id: more are no chance

std::string MethodName(const config::JobSpec& job) {
  if (config::OnlyGenerates(job)) return job.method;
  if (job.adapter != config::Adapter::kLora) return "full";
  const bool quantised = !job.quantization.empty() && job.quantization != "none";
  return quantised ? "qlora" : "lora";
}

std::string BodyHash(const v1::SubmitRequest& request) {
  const std::string paused = request.start_paused() ? "1" : "0";
  return Sha256(absl::StrCat(request.yaml().size(), "\n", request.yaml(), "\n", request.yaml_path(),
                             "\n", paused));
}

// Users choose their keys apart from each other.
std::string KeyOf(const v1::SubmitRequest& request, const std::string& owner) {
  if (request.idempotency_key().empty() || owner.empty()) return request.idempotency_key();
  return absl::StrCat("user ", owner, "\n", request.idempotency_key());
}

store::JobRow NewRow(Context& context, const v1::SubmitRequest& request, const std::string& owner,
                     const config::ParsedJob& parsed) {
  store::JobRow row;
  v1::Job& job = row.job;
  job.set_name(parsed.spec.name);
  job.set_owner(owner);
  job.mutable_labels()->insert(parsed.spec.labels.begin(), parsed.spec.labels.end());
  job.set_state(request.start_paused() ? v1::JOB_STATE_PAUSED : v1::JOB_STATE_QUEUED);
  job.set_created_unix_ms(context.deps.loop->clock().UnixMs());
  job.set_yaml(request.yaml());
  job.set_effective_json(parsed.effective_json);
  job.set_base_model(parsed.spec.model_path);
  job.set_method(MethodName(parsed.spec));
  job.set_device(config::DeviceName(parsed.spec.device));
  job.set_workers(static_cast<int32_t>(parsed.spec.workers));
  job.set_priority(static_cast<int32_t>(parsed.spec.priority));
  job.set_version(1);
  row.base_dir = BaseDirectory(request.yaml_path());
  row.order = context.jobs->NextOrder();
  return row;
}

// The job that an earlier request with this idempotency key made; null: none.
absl::StatusOr<driver::JobDriver*> FindKnown(Context& context, const v1::SubmitRequest& request,
                                             const std::string& owner) {
  if (request.idempotency_key().empty()) return nullptr;
  ASSIGN_OR_RETURN(const std::optional<store::KeyRow> known,
                   context.deps.journal->store()->FindKey(KeyOf(request, owner)));
  if (!known.has_value()) return nullptr;
  if (known->body_hash != BodyHash(request)) {
    return absl::AlreadyExistsError(absl::StrCat("idempotency key '", request.idempotency_key(),
                                                 "' was used with another body, for job ",
                                                 known->job));
  }
  return context.jobs->Find(known->job);
}

// Existence only: what the files hold is read when the job is prepared. Runs in a lane.
absl::Status CheckModel(Files* files, const config::JobSpec& job) {
  const std::string& model = job.model_path;
  const std::string what_to_do =
      ": spec.base_model must be a model's directory on the controller, or the name of "
      "a model on the Hub: org/name, or {hub: name} without an owner";
  if (!files->Exists(model + "/config.json")) {
    return absl::NotFoundError(absl::StrCat("no file ", model, "/config.json", what_to_do));
  }
  // Nothing but the configuration is read.
  if (job.init == BaseInit::kRandom) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<FileEntry> entries, files->List(model));
  for (const FileEntry& entry : entries) {
    if (entry.name.ends_with(".safetensors") || entry.name.starts_with("pytorch_model.bin")) {
      return absl::OkStatus();
    }
  }
  return absl::NotFoundError(
      absl::StrCat("no *.safetensors and no pytorch_model.bin in ", model, what_to_do));
}

// What the files say of a job, before it is accepted. Runs in a lane.
struct FileFacts {
  absl::Status status;
  std::string output_identity = {};
  config::ParsedJob parsed = {};  // with what the adapter says that the job starts from
  std::vector<sources::PinnedSource> sources = {};
  std::vector<std::string> warnings = {};
};

absl::Status TakeOverAdapter(const v1::SubmitRequest& request, FileFacts* facts) {
  ASSIGN_OR_RETURN(facts->parsed, planner::TakeOverAdapter(std::move(facts->parsed), request.yaml(),
                                                           BaseDirectory(request.yaml_path())));
  return absl::OkStatus();
}

// Asks the Hub for what the job names of it. In a lane.
absl::Status Pin(const Context& context, const std::string& owner, FileFacts* facts) {
  sources::KeepRevisions(checkpoint::JobThere(context.deps.files, facts->parsed.spec),
                         &facts->parsed.spec);
  ASSIGN_OR_RETURN(sources::PinnedJob pinned,
                   context.pin(std::move(facts->parsed), owner, /*cancelled=*/{}));
  facts->parsed = std::move(pinned.job);
  facts->sources = std::move(pinned.sources);
  facts->warnings = std::move(pinned.warnings);
  return absl::OkStatus();
}

// `facts` as Pin has left them.
FileFacts LookAtFiles(Files* files, const v1::SubmitRequest& request, FileFacts facts,
                      const driver::OutputOwner& me) {
  const config::JobSpec& named = facts.parsed.spec;
  if (named.model_hub.id.empty() && named.model_url.empty())
    facts.status = CheckModel(files, facts.parsed.spec);
  if (facts.status.ok()) facts.status = TakeOverAdapter(request, &facts);
  const config::JobSpec& job = facts.parsed.spec;
  if (facts.status.ok()) facts.status = CheckOutputPlace(files, job);
  if (facts.status.ok()) facts.status = checkpoint::CheckGoesOn(files, facts.parsed);
  if (!facts.status.ok()) return facts;
  const absl::Status unclaimed = driver::CheckUnclaimed(files, job.output_dir, me);
  // Jobs of this controller: CheckOutput.
  if (!absl::IsUnavailable(unclaimed)) facts.status = unclaimed;
  facts.output_identity = files->Identity(job.output_dir).value_or("");
  return facts;
}

// Two jobs that have not ended never share an output directory, whatever path they name it by. What
// a job of another user left there is not `owner`'s to go on from, nor to replace.
absl::Status CheckOutput(Context& context, const std::string& owner, const std::string& output_dir,
                         const std::string& identity) {
  for (driver::JobDriver* job : context.jobs->NewestFirst()) {
    const bool same = job->spec().output_dir == output_dir ||
                      (!identity.empty() && job->output_identity() == identity);
    if (!same) continue;
    if (!owner.empty() && job->job().owner() != owner) {
      return absl::PermissionDeniedError(absl::StrCat("checkpoint.output_dir ", output_dir,
                                                      " holds what a job of another user ",
                                                      "wrote: give another checkpoint.output_dir"));
    }
    if (state::IsTerminal(job->phase())) continue;
    const std::string& id = job->job().id();
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint.output_dir ", output_dir, " belongs to job ", id, ", which is ",
        std::string(state::PhaseName(job->phase())), ": wait until it has ended, cancel it (cox ",
        "cancel ", id, "), or give another checkpoint.output_dir"));
  }
  return absl::OkStatus();
}

v1::JobEvent SubmittedEvent(const v1::Job& job) {
  v1::JobEvent event;
  event.set_job(job.id());
  event.set_time_unix_ms(job.created_unix_ms());
  event.set_type("Submitted");
  event.set_message(absl::StrCat("job ", job.id(), " submitted"));
  event.set_state(job.state());
  return event;
}

// Draws the id. One that another job has, an unreadable one too, is drawn again.
absl::Status StoreUnderNewId(Context& context, const v1::SubmitRequest& request,
                             store::JobRow* row) {
  v1::Job& job = row->job;
  for (int draw = 0; draw < kMostDraws; ++draw) {
    job.set_id(absl::StrCat(job.name(), "-", context.draw_job_hex()));
    const absl::Status taken = context.deps.journal->Submit(
        *row, SubmittedEvent(job), {KeyOf(request, job.owner()), BodyHash(request), job.id()});
    if (!absl::IsAlreadyExists(taken)) return taken;
    log::Warning("the id that was drawn for a job is another's: drawn again", {{"job", job.id()}});
  }
  return absl::InternalError(absl::StrCat("each of ", kMostDraws, " random ids, the last ",
                                          job.id(), ", is another job's"));
}

absl::StatusOr<v1::Job> Accept(Context& context, const v1::SubmitRequest& request,
                               const std::string& owner, const FileFacts& facts) {
  const config::ParsedJob& parsed = facts.parsed;
  // Asked again: another request may have been accepted while the model was looked at.
  ASSIGN_OR_RETURN(driver::JobDriver * known, FindKnown(context, request, owner));
  if (known != nullptr) return known->job();
  RETURN_IF_ERROR(CheckOutput(context, owner, parsed.spec.output_dir, facts.output_identity));
  store::JobRow row = NewRow(context, request, owner, parsed);
  const absl::Status taken = StoreUnderNewId(context, request, &row);
  if (!taken.ok()) {
    return absl::Status(taken.code(), absl::StrCat("the job was not accepted: ", taken.message()));
  }
  fault::Pass(fault::Point::kSubmitStored);
  const std::string id = row.job.id();
  context.jobs->Add(std::move(row), parsed.spec);
  ASSIGN_OR_RETURN(driver::JobDriver * job, context.jobs->Find(id));
  for (const sources::PinnedSource& source : facts.sources) {
    job->Tell(driver::SourceResolvedEvent(source), sources::LineOf(source));
  }
  for (const std::string& warning : facts.warnings) job->Tell(driver::WarningEvent(), warning);
  return job->job();
}

// Once the Hub has answered: what the files say, then the decision. Loop thread.
void LookAndAccept(Context& context, const v1::SubmitRequest& request, const std::string& owner,
                   const std::shared_ptr<FileFacts>& facts, Reply<v1::Job> reply) {
  if (!facts->status.ok()) {
    reply(facts->status);
    return;
  }
  const driver::OutputOwner me =
      driver::OwnerHere(context.deps.journal->store()->Id(), context.deps.registry->term(),
                        absl::StrCat(facts->parsed.spec.name, ", just submitted"));
  context.deps.loop->Offload(
      Lane::kRequests,
      GuardedInto(std::shared_ptr<absl::Status>(facts, &facts->status),
                  [files = context.deps.files, request, me, facts] {
                    *facts = LookAtFiles(files, request, std::move(*facts), me);
                  }),
      [&context, request, owner, reply = std::move(reply), facts] {
        reply(facts->status.ok() ? Accept(context, request, owner, *facts) : facts->status);
      });
}

}  // namespace

std::string OwnerOf(const access::Principal& caller) {
  return caller.role == access::Role::kUser ? caller.name : std::string();
}

std::string BaseDirectory(const std::string& yaml_path) {
  const std::filesystem::path path(yaml_path);
  if (path.is_absolute()) return path.parent_path().string();
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

void Submit(Context& context, const v1::SubmitRequest& request, const access::Principal& caller,
            Reply<v1::Job> reply) {
  const std::string owner = OwnerOf(caller);
  const absl::StatusOr<driver::JobDriver*> known = FindKnown(context, request, owner);
  if (!known.ok() || *known != nullptr) {
    ReplyJob(known, reply);
    return;
  }
  if (context.jobs->stopping()) {
    reply(absl::UnavailableError(
        "the job was not accepted: the controller is stopping; submit it again when it is back"));
    return;
  }
  const config::ParsedJob parsed =
      config::ParseJob(request.yaml(), BaseDirectory(request.yaml_path()));
  if (!parsed.errors.empty()) {
    std::string errors = config::FormatErrors(
        parsed.errors, request.yaml_path().empty() ? "job.yaml" : request.yaml_path());
    absl::StripTrailingAsciiWhitespace(&errors);
    reply(absl::InvalidArgumentError(errors));
    return;
  }
  auto facts = std::make_shared<FileFacts>();
  facts->parsed = parsed;
  if (!sources::AsksTheHub(parsed.spec)) {
    LookAndAccept(context, request, owner, facts, std::move(reply));
    return;
  }
  context.deps.loop->Offload(Lane::kNames,
                             GuardedInto(std::shared_ptr<absl::Status>(facts, &facts->status),
                                         [&context, owner, facts] {
                                           facts->status =
                                               sources::ToldApart(Pin(context, owner, facts.get()));
                                         }),
                             [&context, request, owner, facts, reply = std::move(reply)] {
                               LookAndAccept(context, request, owner, facts, reply);
                             });
}

}  // namespace coxswain::api
