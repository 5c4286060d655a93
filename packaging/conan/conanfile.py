# Conan 2 recipe of the C library: conan create packaging/conan --build=missing
import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

ROOT = Path(__file__).resolve().parents[2]


class SdtwConan(ConanFile):
    name = "sdtw"
    description = "Soft dynamic time warping, its gradients and expected alignments, on CPUs and NVIDIA GPUs"
    license = "MIT"
    topics = ("dynamic-time-warping", "time-series", "cuda")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "cuda": [True, False]}  # noqa: RUF012
    default_options = {"shared": True, "cuda": False}  # noqa: RUF012

    def set_version(self):
        header = load(self, ROOT / "include" / "sdtw.h")
        number = int(re.search(r"define SDTW_VERSION (\d+)", header)[1])
        self.version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, ROOT, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["SDTW_CUDA"] = "ON" if self.options.cuda else "OFF"
        toolchain.cache_variables["SDTW_TESTS"] = "OFF"
        if self.options.cuda:  # a package is for other machines than this
            toolchain.cache_variables["CMAKE_CUDA_ARCHITECTURES"] = "all-major"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        unwanted = "*.a" if self.options.shared else "*.so*"
        for path in (Path(self.package_folder) / "lib").glob(unwanted):
            path.unlink()
        if self.options.cuda and not self.options.shared:  # whose file for pkg-config says where it is
            text = load(self, Path(self.package_folder) / "lib" / "pkgconfig" / "sdtw.pc")
            folder = re.search(r"-L(.*) -lcudart_static", text)[1]
            copy(self, "libcudart_static.a", folder, Path(self.package_folder) / "lib")
        for folder in ("cmake", "pkgconfig"):  # Conan writes its own
            rmdir(self, str(Path(self.package_folder) / "lib" / folder))

    def package_info(self):
        self.cpp_info.libs = ["sdtw"]
        target = "sdtw" if self.options.shared else "sdtw_static"
        self.cpp_info.set_property("cmake_target_name", f"sdtw::{target}")
        self.cpp_info.set_property("pkg_config_name", "sdtw")
        if not self.options.shared:
            self.cpp_info.defines = ["SDTW_STATIC"]
            self.cpp_info.system_libs = ["stdc++", "gomp", "pthread", "dl", "m"]
            if self.options.cuda:
                self.cpp_info.libs.append("cudart_static")
                self.cpp_info.system_libs.append("rt")
            self.cpp_info.exelinkflags = self.cpp_info.sharedlinkflags = ["-Wl,-z,nodelete"]
