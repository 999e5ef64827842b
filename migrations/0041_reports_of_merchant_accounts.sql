-- Adyen's reports of accounts with a merchant account of their own. A further kind in account_credentials, adyen_report_key: with it they are
-- downloaded.
--
-- What they tell of such a one has the ids of Adyen behind its name, as
-- Shop_A/PSP1: in report_lines (line_id, payment, modification), in report_searches, and in breaks about them (break_id, provider_payment). So what
-- the lines of one merchant account say is never taken for another's. Ids of the deployment's stand alone, as all did before.

-- Whose lines alone count, in a report that was fetched with an account's own key. NULL: those of each merchant account that is known here.
ALTER TABLE reports ADD COLUMN merchant_account TEXT;

-- The account that Adyen has told of a report, and which merchant account it is of; NULL for the deployment's. The name of such a one stands behind
-- the account, as shop-a/settlement_detail_report_batch_4.csv: each merchant account has a report of that name.
ALTER TABLE report_announcements ADD COLUMN account TEXT;
ALTER TABLE report_announcements ADD COLUMN merchant_account TEXT;

-- The merchant accounts of which reports tell: '' is the deployment's.
--
-- since_ms      the earliest time at which a report says that a payment was settled
-- until_ms      when the newest report came that has lines of it and was read whole
-- report_id     the one in which lines of it were read last
-- looked_at_ms  when it was looked last for payments that stand in none
CREATE TABLE reported_merchants (
    merchant_account TEXT PRIMARY KEY,
    since_ms INTEGER,
    until_ms INTEGER,
    report_id TEXT NOT NULL,
    looked_at_ms INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX reported_merchants_by_report ON reported_merchants (report_id);
CREATE INDEX reported_merchants_by_turn ON reported_merchants (looked_at_ms) WHERE since_ms IS NOT NULL AND until_ms IS NOT NULL;
INSERT INTO reported_merchants (merchant_account, since_ms, until_ms, report_id)
SELECT '', (SELECT min(made_at_ms) FROM report_lines WHERE kind = 'Settled'),
    (SELECT max(received_at_ms) FROM reports WHERE state = 'done'), ''
WHERE EXISTS (SELECT 1 FROM reports);

-- Payments in a merchant account of their account's own that hold money and stand in no report yet.
CREATE INDEX payments_unreported ON payments (merchant_account, updated_at_ms) WHERE merchant_account IS NOT NULL
    AND status IN ('succeeded', 'requires_capture', 'disputed')
    AND (provider_payment IS NULL OR listed_payment IS NOT provider_payment OR moved_payment IS NOT provider_payment);
