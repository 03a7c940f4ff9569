"""What names of columns tell, and what not: words are looked up whole, in seven languages."""

import pytest

from likewise.proposing import column_names
from tests.support.looping import each

PROTECTED = [
    "sex", "SEX", "applicant_sex", "applicantSex", "Sex ", "sex=1", "gender", "Gender (self)",
    "race", "Race", "RAC1P", "applicant.race", "ethnicity", "ethnic_group", "isHispanic",
    "religion",
    "disability", "disabled", "native-country", "nationality", "citizenship", "birthplace",
    "country_of_birth", "country of origin", "marital-status", "maritalStatus", "pregnant",
    "veteran", "foreign_worker", "caste", "skin_color", "personal_status_sex",
    "Geschlecht", "Nationalität", "Staatsangehörigkeit", "Familienstand", "Religion",
    "Schwerbehinderung", "Geburtsland", "Herkunft", "Migrationshintergrund",
    "sexe", "nationalité", "situation_familiale", "pays de naissance", "handicap", "ethnie",
    "sexo", "género", "raza", "estado_civil", "nacionalidad", "discapacidad", "religión",
    "sesso", "razza", "nazionalità", "stato civile", "cittadinanza", "etnia",
    "geslacht", "ras", "nationaliteit", "burgerlijke staat", "geboorteland", "etniciteit",
    "raça", "gênero", "nacionalidade", "deficiência", "religião",
]  # fmt: skip
NOT_PROTECTED = [
    "sussex", "essex", "middlesex_branch", "racetrack", "brace", "trace_id", "terrace",
    "graceperiod",
    "national_id", "international", "gendarme", "income", "purpose", "alternative", "usage",
    "sextant", "region", "relation", "statement", "foreign_currency_loan", "nativeapp",
    "orientation",
    "race_id",
]  # fmt: skip


@each("name", PROTECTED)
def test_protected_names_are_known(name):
    assert column_names.is_protected(name)


@each("name", NOT_PROTECTED)
def test_a_part_of_a_word_is_no_word(name):
    assert not column_names.is_protected(name)


PREDICATES = {
    column_names.is_age: (
        ["age", "Age", "applicant_age", "AGEP", "Alter", "edad", "età", "leeftijd", "idade",
         "date_of_birth", "birth_date", "Geburtsdatum", "date de naissance", "age_group", "dob"],
        ["usage", "mileage", "wages", "account_age", "age_of_car", "page", "alternate", "mortgage"],
    ),
    column_names.is_proxy: (
        ["zip", "zip_code", "zipCode", "postcode", "postal code", "PLZ", "Postleitzahl", "district",
         "neighbourhood", "Neighborhood", "surname", "last_name", "LastName", "first language",
         "Muttersprache", "Stadtteil", "quartier", "barrio", "código postal", "wijk", "bairro",
         "quartiere", "county", "census_tract", "Strasse", "Straße", "vorname", "prénom"],
        ["unzipped", "income", "last_payment", "first_loan", "product_name", "warden"],
    ),
    column_names.is_identifier: (
        ["id", "ID", "customer_id", "CustomerId", "case-key", "uuid", "account_number",
         "Kundennummer",
         "Antragsnr", "customer_no", "id_person"],
        ["paid", "width", "idle", "keyboard", "android", "education-num", "number_of_children",
         "num_accounts", "video"],
    ),
    column_names.is_index: (
        ["", "index", "idx", "Unnamed: 0", "rownames", "row"],
        ["indexed", "index_rate", "income", "arrow"],
    ),
    column_names.is_score_of_a_model: (
        ["score", "proba", "p0", "p1", "p_1", "p0(<=50K)", "p1(>50K)", "model_score", "pred_proba",
         "prediction_score", "probability", "y_proba", "risk_score", "logit", "prob"],
        ["credit_score", "fico_score", "test_scores", "underscore", "decile_score", "p90_latency",
         "problem", "page"],
    ),
    column_names.is_truth: (
        ["label", "target", "y", "y_true", "truth", "ground_truth", "actual", "true_label",
         "actual_outcome", "Wahrheit"],
        ["actually", "yield", "labelled_by", "class", "prediction", "targeted"],
    ),
    column_names.is_answer: (
        ["prediction", "pred", "predicted", "y_pred", "yPred", "model_prediction",
         "predicted_class",
         "prediction_label", "output"],
        ["predictor", "pred_proba", "predicted_income", "previous_prediction", "prediction_date",
         "prediction_score"],
    ),
    column_names.is_decision: (
        ["decision", "approved", "loan_approved", "Decision", "granted", "hired", "approval_status",
         "final_decision", "Entscheidung", "genehmigt", "décision", "approuvé", "aprobado",
         "approvato", "besluit", "aprovado", "declined"],
        ["decision_date", "approved_amount", "decision_id", "previous_decision", "approved_by",
         "prior_approved", "undecided"],
    ),
    column_names.is_count: (
        ["children", "num_children", "Anzahl Kinder", "priors_count", "years_employed"],
        ["income", "county", "account", "discount"],
    ),
    column_names.is_code: (
        ["branch_code", "product_type", "industry_code", "Kategorie", "zip", "plz"],
        ["encoded", "prototype", "income", "stypes"],
    ),
    column_names.is_survey_weight: (["fnlwgt", "PWGTP", "sample_weight"], ["weight",
    "body_weight"]),
}  # fmt: skip


@each("asked", PREDICATES, ids=lambda asked: asked.__name__)
def test_names_are_told_apart(asked):
    yes, no = PREDICATES[asked]
    wrong = [name for name in yes if not asked(name)] + [name for name in no if asked(name)]
    assert not wrong


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("applicantSex", ("applicant", "sex")),
        ("HTTPStatusCode", ("http", "status", "code")),
        ("p0(<=50K)", ("p0", "50k")),
        ("Straße_Nr.", ("strasse", "nr")),
        ("État civil", ("etat", "civil")),
        ("", ()),
        ("\x1b[31m", ("31m",)),
    ],
)
def test_a_name_is_split_into_words(name, words):
    assert column_names.words_of(name) == words


@each(
    ("value", "adverse", "good"),
    [
        ("yes", False, True), ("Approved", False, True), (1, False, True), (0, False, False),
        ("sí", False, True), ("genehmigt", False, True), ("no", True, True), (0, True, True),
        (1, True, False), (True, False, True), ("declined", False, False), ("", False, False),
    ],
)  # fmt: skip
def test_the_good_answer_of_something_bad_is_no(value, adverse, good):
    assert column_names.is_good(value, adverse=adverse) is good
