-- Who is logged in at the desk with the operator's secret: a hash of the session. Logging out deletes it, and that ends it.
CREATE TABLE operator_sessions (
  session TEXT PRIMARY KEY,
  expires_at_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- How often somebody has tried the secret, by a hash of the address. A login deletes it.
CREATE TABLE login_attempts (
  address TEXT PRIMARY KEY,
  attempts INTEGER NOT NULL,
  last_at_ms INTEGER NOT NULL,
  next_at_ms INTEGER NOT NULL
) WITHOUT ROWID;
