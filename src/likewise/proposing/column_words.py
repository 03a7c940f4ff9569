"""Words in names of columns, by meaning, in seven languages: the data of column_names.py.

English, German, French, Spanish, Italian, Dutch and Portuguese; lower case, without accents (ä is
a, ß is ss; where people also write ae, both are here). A stem stands for every word that begins
with it. Words whose meaning depends on the rest of the name are left out: people notice in the
written rule what is missing, but believe a wrong claim.
"""


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
