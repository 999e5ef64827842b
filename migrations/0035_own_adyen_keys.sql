-- Accounts with keys of their own at Adyen. Further kinds in account_credentials: adyen_api_key, adyen_hmac_key, adyen_hmac_key_before (the one
-- that it replaces) and adyen_webhook_auth.
--
-- merchant_account  the merchant account at Adyen for which the API key was found to be good when it was entered
ALTER TABLE account_credentials ADD COLUMN merchant_account TEXT;
-- Two accounts do not have the same one: what Adyen tells of a payment would be told of both.
CREATE UNIQUE INDEX account_credentials_by_merchant_account ON account_credentials (merchant_account, mode)
    WHERE merchant_account IS NOT NULL;

-- The merchant account at Adyen in which a payment was made with a key of its account's own; NULL where that was ADYEN_MERCHANT_ACCOUNT, whose
-- reports alone are compared with payments.
ALTER TABLE payments ADD COLUMN merchant_account TEXT;
