"""Tells what the name of a column says: protected, age, proxy, identifier, score, truth, decision.

A name is split into words (snake_case, camelCase, spaces, signs), and whole words are looked up in
column_names.py: `sex` is a word of `applicant_sex` but not of `sussex`.

Invariant: a name alone never says what the values are; callers look at those too.
"""

import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache

# Words in names of columns, by meaning, in seven languages: the data of column_names.py.
# English, German, French, Spanish, Italian, Dutch and Portuguese; lower case, without accents (ä is
# a, ß is ss; where people also write ae, both are here). A stem stands for every word that begins
# with it. Words whose meaning depends on the rest of the name are left out: people notice in the
# written rule what is missing, but believe a wrong claim.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PROTECTED = _words(
    # sex and gender
    "sex sexo sexe sesso geslacht gender genero transgender "
    # race, ethnic group, caste
    "race races racial rasse raza razza ras raca rac1p rac2p rac3p hispanic hisp latino latina "
    "latinx caste kaste casta hautfarbe "
    # where from
    "native nativity birthplace birthcountry geburtsort geburtsland geboorteland "
    "geboorteplaats herkunft herkunftsland herkomst foreigner immigrant migrant "
    "migrationshintergrund auslander auslaender extranjero extranjera etranger straniero "
    "estrangeiro buitenlander cittadinanza ciudadania cidadania nacionalidade citizenship "
    # belief, body, family
    "konfession godsdienst geloof faith creed invalido deficiencia "
    "marital married matrimonial familienstand zivilstand veteran veterans lgbt sexual"
)
PROTECTED_STEMS = _words(
    "ethni etnia etnic etnisch religi disab discapac handicap gehandicap behinder "
    "schwerbehind pregnan schwanger embaraz enceint zwanger gravidez incinta geschlecht "
    "nationalit nacionalid nazionalit citizen citoyen staatsangeh staatsburg staatsbuerg "
    "burgerschap huwelijk verheiratet"
)
PROTECTED_TOGETHER = (
    ("birth", "place"), ("birth", "country"), ("birth", "region"), ("birth", "state"),
    ("country", "origin"), ("national", "origin"), ("country", "birth"), ("born", "abroad"),
    ("foreign", "worker"), ("foreign", "born"),
    ("lieu", "naissance"), ("pays", "naissance"), ("pays", "origine"), ("lugar", "nacimiento"),
    ("pais", "nacimiento"), ("pais", "origen"), ("luogo", "nascita"), ("paese", "nascita"),
    ("local", "nascimento"), ("pais", "origem"), ("estado", "civil"), ("stato", "civile"),
    ("etat", "civil"), ("situation", "familiale"), ("burgerlijke", "staat"), ("skin", "color"),
    ("skin", "colour"), ("civil", "status"), ("family", "status"),
)  # fmt: skip
"""All words of one must be in the name."""

AGE = _words(
    "age agep ages alter lebensalter edad eta leeftijd idade dob yob birthdate birthday birthyear "
    "geburtsdatum geburtsjahr geburtstag geboortedatum geboortejaar naissance nacimiento nascita "
    "nascimento"
)
AGE_TOGETHER = (
    ("birth", "date"), ("birth", "day"), ("birth", "year"), ("birth", "month"),
)  # fmt: skip
NOT_OF_A_PERSON = _words(
    "account car vehicle auto loan credit house building property policy device oldest newest file "
    "konto fahrzeug kredit company business employment job"
)
"""With one of these, an age is not a person's."""

PROXY = _words(
    "zip zipcode postcode postal plz postleitzahl postcodes district bezirk stadtteil kiez "
    "ortsteil neighbourhood neighborhood nbhd quartier quartiere barrio wijk buurt bairro distrito "
    "distretto arrondissement tract county ward borough parish gemeinde kommune commune comune "
    "municipio gemeente city town stadt ville ciudad citta stad cidade "
    "surname lastname nachname familienname apellido apellidos cognome achternaam sobrenome "
    "firstname forename vorname prenom voornaam maiden "
    "language sprache muttersprache langue idioma lingua taal moedertaal accent "
    "address adresse anschrift strasse street direccion domicilio indirizzo adres straat endereco "
    "genre birth relationship relp spouse anrede salutation"
)
PROXY_TOGETHER = (
    ("last", "name"), ("family", "name"), ("first", "name"), ("given", "name"),
    ("mother", "tongue"), ("full", "name"),
)  # fmt: skip

IDENTIFIER = _words("id ids key uuid guid ssn iban kennung kundennr identifier ident pk")
IDENTIFIER_ENDS = ("nummer", "kennung", "nr", "nbr")
"""Endings of words that have more letters than these: Kundennummer, Antragsnr."""
NUMBERED = _words("number no nr nummer numero")
"""An identifier at the end of a name (account_number), a count at its beginning."""
INDEX = frozenset(
    ["", "index", "idx", "unnamed", "rownames", "rownum", "row_number", "row", "lfd", "lfdnr"]
)

SCORE = _words(
    "score scores scoring proba probability prob probabilities logit logits likelihood confidence "
    "yhat pd wahrscheinlichkeit probabilite probabilidad probabilita waarschijnlijkheid "
    "probabilidade punteggio puntaje"
)
OF_A_MODEL = _words(
    "model modell modele modelo modello pred predicted prediction predictions raw output y final "
    "ml ai risk class positive negative default approval calibrated"
)
"""Beside a word for a score these leave no doubt that a model made it."""

TRUTH = _words(
    "truth groundtruth ytrue gold actual actuals wahrheit verite verdad verita waarheid verdade"
)
TRUTH_NAMES = _words(
    "label labels target y true_label true_class y_true label_true class_true true_y ground_truth "
    "true true_outcome observed_outcome"
)
"""Whole names."""

ANSWER = _words("prediction predictions pred preds predicted predict yhat output")
"""What a model said."""
DECISION = _words(
    "decision decisions approved approval accepted granted hired admitted rejected declined denied "
    "refused shortlisted selected "
    "entscheidung entscheid genehmigt bewilligt zugesagt angenommen abgelehnt "
    "accorde approuve accepte refuse rejete aprobado aprobada aceptado concedido concedida "
    "rechazado decisione approvato approvata accettato concesso rifiutato "
    "besluit beslissing goedgekeurd toegekend geaccepteerd afgewezen "
    "decisao aprovado aprovada aceito negado"
)
"""What was decided."""
REFUSED = _words(
    "rejected declined denied refused abgelehnt refuse rejete rechazado rifiutato afgewezen negado"
)
ADVERSE = _words(
    "default defaulted fraud bad risk churn recid recidivism delinquent ausfall betrug fraude "
    "impago insolvent"
)
"""What nobody wants; with what is refused, an output of which 0 and no are the good answers."""
GOOD = _words(
    "yes true approved accepted accept approve granted hired good pass passed 1 y ja oui si sim "
    "genehmigt bewilligt angenommen approuve accorde aprobado aprobada concedido approvato "
    "approvata concesso goedgekeurd toegekend aprovado aprovada"
)
BAD = _words("no false 0 n nein non nee nao")
"""Whole values, without accents."""
SPOKEN = _words(
    "label class status flag value code binary bool result outcome int num text status final made"
)
"""Words that may follow: predicted_class, approval_status."""
EARLIER = _words(
    "previous previously prior prev last past old earlier former historical vorherige fruhere "
    "precedent anterior precedente vorige true actual"
)
"""Words that make it another decision than this one."""
PERHAPS = ("outcome", "result", "response", "ergebnis", "resultat", "resultado", "esito")

COUNT = _words(
    "count counts number num nb nbr anzahl nombre cantidad numero aantal quantidade "
    "children child kids kinder enfants hijos figli kinderen filhos dependents dependants "
    "persons people members household haushaltsmitglieder rooms zimmer bedrooms accounts cards "
    "loans credits inquiries enquiries defaults delinquencies arrears priors convictions "
    "arrests claims visits years year months weeks days hours jahre monate tage stunden anni mesi "
    "ans mois anos meses jaren maanden tenure age agep"
)
CODE = _words(
    "code codes cd type typ types tipo category categorie categoria kategorie class klasse status "
    "segment group gruppe groupe grupo gruppo cat kind art sector branch channel region state "
    "flag level tract county plz zip zipcode postcode postal"
)
WEIGHT = _words("fnlwgt pwgtp perwt wgtp sampleweight")
WEIGHT_TOGETHER = (("sample", "weight"), ("survey", "weight"), ("sampling", "weight"))
TIME = _words(
    "timestamp time date datetime epoch unix ts datum zeitpunkt zeit fecha data_ora datetime64 "
    "created updated"
)


_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_OF_CLASS = re.compile(r"\s*[pP]_?\d{1,3}\s*([(\[=:].*)?", re.DOTALL)


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Split a name into words, in lower case and without accents."""
    folded = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    bare = "".join(one for one in folded if not unicodedata.combining(one))
    parts = re.findall(r"[^\W_]+", _CAMEL.sub(" ", bare))
    return tuple(part.lower() for part in parts)


def is_protected(name: str) -> bool:
    """Tell whether the name is that of a group that laws protect."""
    words = _has_word(name, PROTECTED, PROTECTED_TOGETHER, PROTECTED_STEMS)
    return words and not is_identifier(name)


def is_age(name: str) -> bool:
    """Tell whether it is the age of a person, or when they were born."""
    return _has_word(name, AGE, AGE_TOGETHER) and not _has_word(name, NOT_OF_A_PERSON)


def is_proxy(name: str) -> bool:
    """Tell whether the column may stand for a protected group: a place, a name, a language."""
    return _has_word(name, PROXY, PROXY_TOGETHER)


def is_identifier(name: str) -> bool:
    """Tell whether the name is that of a number that names a person or a thing."""
    parts = words_of(name)
    if not parts:
        return False
    if parts[0] in IDENTIFIER or parts[-1] in IDENTIFIER:
        return True
    if len(parts) > 1 and parts[-1] in NUMBERED:
        return True
    return any(
        part.endswith(end) and len(part) > len(end) + 2 for part in parts for end in IDENTIFIER_ENDS
    )


def is_index(name: str) -> bool:
    """Tell whether the name is that of a column which counts the lines of a file."""
    parts = words_of(name)
    return "_".join(parts) in INDEX or (len(parts) == 2 and parts[0] == "unnamed")


def is_score(name: str) -> bool:
    """Tell whether the name has a word for a score or a probability, of a model or not."""
    return _has_word(name, SCORE) or is_probability_of_class(name)


def is_score_of_a_model(name: str) -> bool:
    """Tell whether the name says that a model made the score: `score`, `model_score`, `p1`."""
    parts = words_of(name)
    if not is_score(name):
        return False
    rest = [part for part in parts if part not in SCORE and not part.isdigit()]
    return is_probability_of_class(name) or all(part in OF_A_MODEL for part in rest)


def is_probability_of_class(name: str) -> bool:
    """Tell whether it is called p0, p1, p_2 or p0(<=50K)."""
    return _OF_CLASS.fullmatch(name) is not None


def is_truth(name: str) -> bool:
    """Tell whether the name says the true answer, known later, and not what was decided."""
    return "_".join(words_of(name)) in TRUTH_NAMES or _has_word(name, TRUTH)


def is_class(name: str) -> bool:
    """Tell whether the name is just "class", which may be the truth or a decision."""
    return words_of(name) in {("class",), ("klasse",), ("classe",), ("clase",)}


def is_answer(name: str) -> bool:
    """Tell whether the name says what a model predicted."""
    return _ends_in_word(name, ANSWER)


def is_decision(name: str) -> bool:
    """Tell whether the name says what was decided, by a model or by people."""
    return _ends_in_word(name, DECISION)


def is_refusal(name: str) -> bool:
    """Tell whether it says who was refused."""
    return _has_word(name, REFUSED)


def is_adverse(name: str) -> bool:
    """Tell whether it says something that nobody wants: refused, defaulted, at risk."""
    return _has_word(name, ADVERSE) or is_refusal(name)


def is_good(value: object, *, adverse: bool = False) -> bool:
    """Tell whether a value is the answer that everyone wants; for something adverse, no or 0."""
    if isinstance(value, int | float):
        return float(value) == (0.0 if adverse else 1.0)
    return " ".join(words_of(str(value))) in (BAD if adverse else GOOD)


def may_be_output(name: str) -> bool:
    """Tell whether the name may mean the output, or something known later: outcome, result."""
    return _ends_in_word(name, PERHAPS)


def is_count(name: str) -> bool:
    """Tell whether the name has a word for something that is counted."""
    return _has_word(name, COUNT)


def is_code(name: str) -> bool:
    """Tell whether the name says that its numbers are codes: branch_code, product_type."""
    parts = words_of(name)
    return bool(parts) and (parts[-1] in CODE or parts[0] in ("code", "type", "plz", "zip"))


def is_survey_weight(name: str) -> bool:
    """Tell whether it says how many people a row of a survey stands for."""
    return _has_word(name, WEIGHT, WEIGHT_TOGETHER)


def is_time(name: str) -> bool:
    """Tell whether the name says that its numbers are times."""
    return _has_word(name, TIME) or words_of(name)[-1:] == ("at",)


def _ends_in_word(name: str, vocabulary: Collection[str]) -> bool:
    """Tell whether the name ends in one of these words, apart from words that may follow it."""
    parts = words_of(name)
    if any(part in EARLIER for part in parts):
        return False
    for part in reversed(parts):
        if part in vocabulary:
            return True
        if part not in SPOKEN and not part.isdigit():
            return False
    return False


def _has_word(
    name: str,
    vocabulary: Collection[str],
    together: Collection[tuple[str, ...]] = (),
    stems: Collection[str] = (),
) -> bool:
    """Tell whether the name has one of these words, all words of a group, or a word of a stem."""
    parts = words_of(name)
    if any(part in vocabulary or part.startswith(tuple(stems)) for part in parts):
        return True
    return any(set(group) <= set(parts) for group in together)
