"""Words for who tells the truth and who lies, in several languages, as the leak guard reads them.

Words are spelled as `plain_text.characters` leaves them: without marks, in lower case.
"""

from __future__ import annotations

ROLES_ABROAD = {
    "knight": (
        "ritter chevalier caballero cavaliere cavalieri cavaleiro ridder rycerz rycerzem "
        "riddare рыцарь 骑士 騎士 기사"
    ),
    "knave": (
        "schurke knappe bube knecht valet fripon coquin bribon escudero picaro furfante "
        "fante canaglia valete patife "
        "schurk lotr lotrem lokaj skurk плут негодяй 无赖 惡棍 恶棍 悪漢 ならず者 악당 건달"
    ),
    "pioneer": (
        "pionier pionnier pionero pioniere pioneiro pionierem pionjar пионер "
        "первопроходец 先锋 先驱 先駆者 開拓者 개척자"
    ),
    "laggard": (
        "nachzugler trodler retardataire trainard rezagado ritardatario retardatario "
        "achterblijver maruder "
        "efterslantrare отстающий 落后者 落伍者 遅れ者 느림보"
    ),
    "saint": (
        "heiliger heilige saint santo santa sankt helgon swiety swietym heilig "
        "святой 圣人 聖人 성인"
    ),
    "sinner": (
        "sunder pecheur pecador peccatore peccatori zondaar grzesznik grzesznikiem syndare "
        "грешник 罪人 죄인"
    ),
    "hero": (
        "held helden heros heroe eroe eroi heroi bohater bohaterem hjalte герой 英雄 ヒーロー 영웅"
    ),
    "villain": (
        "bosewicht schurke mechant scelerat villano malvado cattivo cattivi vilao "
        "slechterik schurk zloczynca "
        "zloczynca skurk злодей 恶棍 反派 悪役 악당"
    ),
    "angel": "engel ange angel angelo angeli anjo aniolem aniol ангел 天使 천사",
    "devil": (
        "teufel diable demon demonio diablo diavolo diavoli diabo duivel diabel diablem "
        "djavul дьявол демон 恶魔 魔鬼 悪魔 악마"
    ),
    "altruist": (
        "altruist altruiste altruista altruisten альтруист 利他主义者 利他主義者 이타주의자"
    ),
    "egoist": "egoist egoiste egoista egoisten эгоист 利己主义者 利己主義者 이기주의자",
    "sage": "weiser weise sage sabio saggio saggi wijze medrzec medrcem vis мудрец 智者 賢者 현자",
    "fool": (
        "narr dummkopf fou sot imbecile idiot tonto necio sciocco stolto tolo bobo dwaas gek "
        "glupiec glupcem dare "
        "дурак глупец 傻瓜 愚者 바보"
    ),
}
"""Role -> what it may be called."""
TRUTHFUL = """
truthful; honest; truth-teller; truth teller; truthteller; truth-tellers; truth tellers;
truthtellers; the truth; trusted; believed;
truthfully; honestly; sincere; veracious; trustworthy; relied upon; relied on; you can trust;
we can trust; truth-telling;
truth-speaker; truth-speakers; die wahrheit; ehrlich; wahrhaftig; la verite; honnete; honnetes;
la verdad; sincero; sincera; honesto;
honesta; veraz; la verita; onesto; onesta; onesti; a verdade; de waarheid; eerlijk; prawde;
prawdomowny; prawdomowna; правду;
правдив; правдивый; честный; честная; 说真话; 说实话; 诚实; 真話; 說真話; 正直者; 正直;
本当のこと; 真実を; 진실; 정직; sanningen; arlig
"""
LYING = """
liar; liars; lying; dishonest; deceiver; deceivers; untruthful; fibber; fibbers; deceitful;
falsehoods; not to be trusted;
lugner; lugnerin; unehrlich; menteur; menteuse; menteurs; mentiroso; mentirosa; mentirosos;
bugiardo; bugiarda; bugiardi;
leugenaar; leugenaars; klamca; klamcy; лжец; лгун; лжецы; 骗子; 騙子; 嘘つき; うそつき;
거짓말쟁이; 거짓말; lognare
"""
LIES = """
lie; lies; deceives; fibs; is lying; are lying; lugt; lugen; ment; mentent; miente; mienten;
mente; mentono; mentem; liegt; liegen;
klamie; klamia; лжет; лгут; врет; 说谎; 撒谎; 說謊; 嘘をつ; ljuger
"""


def signs() -> dict[str, str]:
    """Word -> `T` (tells the truth), `F` (lies), `V` (lies, as a verb)."""
    return {
        word.strip(): sign
        for sign, words in (("T", TRUTHFUL), ("F", LYING), ("V", LIES))
        for word in words.replace("\n", " ").split(";")
        if word.strip()
    }


LINKS = r"ist|sind|ein(?:e|en)?|sagt|sagen|est|sont|un(?:e|a)?|dit|disent|es|son|dice|dicen|sono|sao|diz|dizem|dicono|e|jest|sa|mowi|mowia|is|een|zijn|ar|talar|som|spreekt|это|является|говорит|говорят|als|como|comme|come"  # noqa: E501
LINKS_ANYWHERE = "是|は|が|은|는|이|가|—|为"
AND = r"and|und|et|y|e|en|i|och|и|&|和|と|와|과|、|plus|as\s+well\s+as|along\s+with|together\s+with"
NOT = r"not|never|cannot|no|isn|aren|nicht|kein|keine|pas|non|nao|niet|geen|nie|inte|не|neither|nor"
NOT_ANYWHERE = "n['’]t\\b|不是|不|ではない|じゃない|아니|没有"
REPORTED = (
    r"behaupt\w*|laut|zufolge|meint|dit\s+que|affirme\w*|selon|declare|dice\s+que|afirma\w*|"
    r"segun|diz\s+que|afferma|"
    r"secondo|beweert|zegt\s+dat|volgens|mowi\s+ze|twierdzi|wedlug|утверждает|говорит,?\s+что|"
    r"по\s+словам|hast|hattest|"
    r"deine?r?|deinen|votre|vous|ton|ta|su|tuo|tua|hai|voce|jij|jouw|twoj\w*|вы|ты|твой|ваш\w*|"
    r"din|ditt"
)
REPORTED_ANYWHERE = "声称|断言|你的|您的|と言|と主張|あなた|라고|당신"
SUPPOSED = (
    r"wenn|falls|angenommen|nimm|nehmen|si|suppos\w*|supon\w*|supong\w*|se|ipotizz\w*|stel|"
    r"indien|jesli|gdyby|zaloz\w*|"
    r"если|допустим|предполож\w*|antag|anta"
)
SUPPOSED_ANYWHERE = "如果|假设|假如|もし|仮定|만약|라면|가정"
