"""What the study of BOLIB runs: problems, contenders, budgets and seeds."""

from collections.abc import Mapping
from dataclasses import dataclass

from bome.tasks.bolib import PREFIX
from bome_studies.study import Preset

BUDGETS = (300, 1000, 2500)
"""Evaluations after which answers are looked at."""

FURTHER = (5000,)
"""What `bome.solve` is given beside, as it was designed for so many."""

_NAMES = """
AiyoshiShimizu1984Ex2 Bard1984b Bard1988Ex2 Bard1991Ex1 BardFalk1982Ex2 BialasKarwan1984a CandlerTownsley1982
ClarkWesterberg1990a Colson2002BIPA3 Colson2002BIPA5 DempeFranke2011Ex41 DempeFranke2014Ex38
DempeLohse2011Ex31a FalkLiu1995 GlackinEtal2009 HatzEtal2013 HaurieSavardWhite1990 HenrionSurowiec2011
KleniatiAdjiman2014Ex3 LamparielloSagratella2017Ex23 LanWenShihLee2007 MacalHurter1997 MershaDempe2006Ex2
Mirrlees1999 MitsosBarton2006Ex311 MitsosBarton2006Ex313 MitsosBarton2006Ex315 MitsosBarton2006Ex317
MitsosBarton2006Ex319 MitsosBarton2006Ex321 MitsosBarton2006Ex34 MitsosBarton2006Ex36 MorganPatrone2006a
NetworkDesignP2 Outrata1990Ex1b Outrata1990Ex1d Outrata1990Ex2a Outrata1990Ex2c Outrata1993Ex32
PaulaviciusAdjiman2017b ShimizuAiyoshi1981Ex2 SinhaMaloDeb2014TP10 SinhaMaloDeb2014TP6 TuyEtal1994
YeZhu2010Ex43
"""

SEEN = tuple(PREFIX + name.lower() for name in _NAMES.split())
"""The problems that were looked at while `bome.solve` was designed; the others were translated after it was frozen."""


TELLING = (
    "bome.solve", "bome", "bome:paper", "bome-z", "bome-qp", "itd", "aid-cg", "pbgd", "ogda", "gda", "start"
)  # fmt: skip
"""Those of the quick preset: one method of each kind, and what is refused at once."""


@dataclass(frozen=True)
class BolibProtocol:
    """How much is run.

    Attributes:
        seeds: 0, 1, ... of what is random.
        budgets: evaluations.
        further: evaluations that only `bome.solve` is given.
        problems: names of tasks; none for all.
        contenders: names; none for all.
    """

    seeds: int
    budgets: tuple[int, ...] = BUDGETS
    further: tuple[int, ...] = FURTHER
    problems: tuple[str, ...] = ()
    contenders: tuple[str, ...] = ()


PROTOCOLS: Mapping[Preset, BolibProtocol] = {
    "smoke": BolibProtocol(
        seeds=1,
        budgets=(100, 200),
        further=(300,),
        problems=("bolib-falkliu1995", "bolib-bard1984b"),
        contenders=("bome.solve", "bome", "start"),
    ),
    "quick": BolibProtocol(seeds=1, contenders=TELLING),
    "paper": BolibProtocol(seeds=5),
}
