// What D1 is behind its binding: `POST /query` with one or many statements, run as one unit. `GET /stats` counts what was written.
import { DurableObject } from 'cloudflare:workers';

export default {
  fetch: (request, env) => env.DATABASE.getByName('it').fetch(request),
};

export class Database extends DurableObject {
  #rowsWritten = 0;
  #statements = 0;

  async fetch(request) {
    const url = new URL(request.url);
    if (url.pathname === '/stats')
      return Response.json({ rows_written: this.#rowsWritten, statements: this.#statements });
    const asked = await request.json();
    const format = url.searchParams.get('resultsFormat');
    try {
      const run = (statement) => this.#run(statement, format);
      const results = this.ctx.storage.transactionSync(() => [asked].flat().map(run));
      return Response.json(results);
    } catch (error) {
      return Response.json({ success: false, error: String(error.message) });
    }
  }

  #run({ sql, params }, format) {
    const cursor = this.ctx.storage.sql.exec(sql, ...(params ?? []).map(fromJson));
    const columns = cursor.columnNames;
    const rows = [...cursor.raw()].map((row) => row.map(toJson));
    this.#statements += 1;
    this.#rowsWritten += cursor.rowsWritten;
    const meta = {
      rows_read: cursor.rowsRead,
      rows_written: cursor.rowsWritten,
      changes: cursor.rowsWritten,
    };
    return { success: true, results: shaped(format, columns, rows), meta: { duration: 0, ...meta } };
  }
}

const shaped = (format, columns, rows) =>
  format === 'ROWS_AND_COLUMNS'
    ? { columns, rows }
    : rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));

const fromJson = (value) => (Array.isArray(value) ? new Uint8Array(value).buffer : value);
const toJson = (value) => (value instanceof ArrayBuffer ? [...new Uint8Array(value)] : value);
