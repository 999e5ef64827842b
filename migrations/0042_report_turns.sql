-- When an account had its turn in which a report of its own was fetched at Adyen: the one whose last turn is the longest ago is next. The account is
-- empty where the report is the deployment's; one that had none yet has no row.
CREATE TABLE report_turns (
    account TEXT PRIMARY KEY,
    turn INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX report_turns_by_turn ON report_turns (turn);
