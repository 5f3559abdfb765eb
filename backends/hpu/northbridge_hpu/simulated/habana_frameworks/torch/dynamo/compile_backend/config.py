"""The options of ``hpu_backend``, with torch's own functions for such a module."""

from __future__ import annotations

import sys as _sys

from torch.utils._config_module import install_config_module as _install

use_compiled_recipes = True
decomposition_mode = "habana"
keep_input_mutations = True
use_eager_fallback = True
use_graph_freezing = False
discard_frozen_params = False
remove_unnecessary_clones = True
use_inplace_allreduce = True
use_inplace_index_copy = True
inference = True
enable_sfg = False
use_cpp_partitioner = True
enable_allreduce_graph_split = True
force_static_compile = False
reinplace_add = True
reassign_full_copy = True
reassign_copy_ = True
use_boxed_input = True

del annotations  # torch would take it for an option
_install(_sys.modules[__name__])
