// Torch's header of the profiler registry asks for this name, but torch ships the file in a folder
// that is not on the path of an extension.
#pragma once

#include <kineto/IActivityProfiler.h>
