"""The methods, one file each."""

from bome.methods.aid_cg import AIDCG
from bome.methods.aid_fp import AIDFP
from bome.methods.base import Info, Method, Step
from bome.methods.batched import Batched
from bome.methods.bome import BOME
from bome.methods.bsg1 import BSG1
from bome.methods.bvfsm import BVFSM
from bome.methods.compiled import Compiled
from bome.methods.darts import DARTS
from bome.methods.f2sa import F2SA
from bome.methods.gda import GDA, negative
from bome.methods.itd import ITD
from bome.methods.meha import MEHA
from bome.methods.mrbo import MRBO
from bome.methods.ogda import OGDA
from bome.methods.pbgd import PBGD
from bome.methods.penalty import Penalty
from bome.methods.reverse import Reverse
from bome.methods.saba import SABA
from bome.methods.sama import SAMA
from bome.methods.soba import SOBA
from bome.methods.stocbio import StocBiO
from bome.methods.vrbo import VRBO

__all__ = [
    "AIDCG",
    "AIDFP",
    "BOME",
    "BSG1",
    "BVFSM",
    "DARTS",
    "F2SA",
    "GDA",
    "ITD",
    "MEHA",
    "MRBO",
    "OGDA",
    "PBGD",
    "SABA",
    "SAMA",
    "SOBA",
    "VRBO",
    "Batched",
    "Compiled",
    "Info",
    "Method",
    "Penalty",
    "Reverse",
    "Step",
    "StocBiO",
    "negative",
]
