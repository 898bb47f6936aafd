# Toolchain of the `arm64` preset: Debian's cross compiler for 64-bit ARM, and qemu-user to run what it makes. Linked statically, so
# that nothing of the target needs to be installed.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
# max: with dotprod and i8mm, as on current servers and Apple's processors.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -cpu max)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
