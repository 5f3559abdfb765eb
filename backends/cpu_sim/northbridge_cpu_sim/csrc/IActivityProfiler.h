// Torch's header of the profiler registry includes this name, but torch ships the file in a folder
// that is not on an extension's include path.
#pragma once

#include <kineto/IActivityProfiler.h>
