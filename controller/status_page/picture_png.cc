#include "controller/status_page/picture_png.h"

#include <dlfcn.h>

#include <cmath>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::status_page {
namespace {

constexpr double kPixelsPerUnit = 2;
constexpr int kArgb32 = 0;  // CAIRO_FORMAT_ARGB32

// Source: librsvg 2.52, rsvg.h; cairo 1.16, cairo.h; GLib 2, gerror.h.
struct Handle;
struct Surface;
struct Context;
struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0;
};
struct Error {
  uint32_t domain;
  int code;
  char* message;
};
using WriteFunction = int (*)(void* closure, const unsigned char* data, unsigned length);

struct Librsvg {
  Handle* (*NewFromData)(const unsigned char* data, size_t bytes, Error** error);
  int (*Size)(Handle* handle, double* width, double* height);
  int (*Render)(Handle* handle, Context* context, const Rectangle* place, Error** error);
  Surface* (*CreateSurface)(int format, int width, int height);
  Context* (*CreateContext)(Surface* surface);
  int (*StatusOf)(Surface* surface);
  int (*WritePng)(Surface* surface, WriteFunction write, void* closure);
  void (*DestroyContext)(Context* context);
  void (*DestroySurface)(Surface* surface);
  void (*Unref)(void* object);
  void (*FreeError)(Error* error);
};

// librsvg's own symbols, and those of the libraries that it needs.
absl::StatusOr<Librsvg> Load(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  Librsvg rsvg;
  bool whole = library != nullptr;
  const auto find = [&]<typename Function>(const char* name, Function* function) {
    if (whole) *function = reinterpret_cast<Function>(dlsym(library, name));
    whole = whole && *function != nullptr;
  };
  find("rsvg_handle_new_from_data", &rsvg.NewFromData);
  find("rsvg_handle_get_intrinsic_size_in_pixels", &rsvg.Size);
  find("rsvg_handle_render_document", &rsvg.Render);
  find("cairo_image_surface_create", &rsvg.CreateSurface);
  find("cairo_create", &rsvg.CreateContext);
  find("cairo_surface_status", &rsvg.StatusOf);
  find("cairo_surface_write_to_png_stream", &rsvg.WritePng);
  find("cairo_destroy", &rsvg.DestroyContext);
  find("cairo_surface_destroy", &rsvg.DestroySurface);
  find("g_object_unref", &rsvg.Unref);
  find("g_error_free", &rsvg.FreeError);
  if (whole) return rsvg;
  const char* const error = dlerror();
  return absl::FailedPreconditionError(
      absl::StrCat("PNG is drawn by librsvg 2.52 or newer, and ", file, " cannot be loaded (",
                   error == nullptr ? "it is older" : error,
                   "). Install it (Debian and Ubuntu: apt-get install librsvg2-2 "
                   "fonts-dejavu-core), or give a name that ends in .svg"));
}

absl::Status Refused(const Librsvg& rsvg, Error* error) {
  const std::string why = error == nullptr ? "it has no size" : error->message;
  if (error != nullptr) rsvg.FreeError(error);
  return absl::InvalidArgumentError(absl::StrCat("librsvg draws no such SVG: ", why));
}

int Append(void* closure, const unsigned char* data, unsigned length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return 0;  // CAIRO_STATUS_SUCCESS
}

}  // namespace

absl::StatusOr<std::string> PngOf(const std::string& svg, const char* library) {
  ASSIGN_OR_RETURN(const Librsvg rsvg, Load(library));
  Error* error = nullptr;
  const std::unique_ptr<Handle, void (*)(void*)> handle(
      rsvg.NewFromData(reinterpret_cast<const unsigned char*>(svg.data()), svg.size(), &error),
      rsvg.Unref);
  Rectangle place;
  if (handle == nullptr || rsvg.Size(handle.get(), &place.width, &place.height) == 0) {
    return Refused(rsvg, error);
  }
  place.width *= kPixelsPerUnit;
  place.height *= kPixelsPerUnit;
  const std::unique_ptr<Surface, void (*)(Surface*)> surface(
      rsvg.CreateSurface(kArgb32, static_cast<int>(std::ceil(place.width)),
                         static_cast<int>(std::ceil(place.height))),
      rsvg.DestroySurface);
  const std::unique_ptr<Context, void (*)(Context*)> context(rsvg.CreateContext(surface.get()),
                                                             rsvg.DestroyContext);
  if (rsvg.Render(handle.get(), context.get(), &place, &error) == 0) return Refused(rsvg, error);
  std::string png;
  if (rsvg.StatusOf(surface.get()) != 0 || rsvg.WritePng(surface.get(), Append, &png) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cairo draws no picture of ", place.width, " x ", place.height, " pixels"));
  }
  return png;
}

}  // namespace coxswain::status_page
