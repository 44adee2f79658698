from .mixed_precision import *
from .wrapping import *

