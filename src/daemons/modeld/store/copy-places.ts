// Where modeld has texts of runs, models and people, for the removal of forgotten ones.
import type { CopyPlace } from '../../../platform/copies/erase-records.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import { FORGOTTEN, type ForgottenMemory } from '../../../wire/copies.ts';

/** A part keeps the hash that it had: calls refer to it by that. */
export const COPY_PLACES: readonly CopyPlace[] = [
  {
    table: 'parts',
    key: ['id'],
    columns: ['body'],
    reads: ['source'],
    /** By reference: a short text is not looked for. */
    async redact(_sql, { source, body }, { memoryIds }) {
      if (typeof body !== 'string' || !memoryIds.has(String(source).slice('memory:'.length)))
        return undefined;
      const redacted = redactMessage(body);
      return redacted === body ? undefined : { body: redacted };
    },
  },
  { table: 'model_calls', key: ['seq'], columns: ['purpose', 'error'] },
];

type StoredMessage = { parts: { text?: string }[] };

/** As the runner writes a forgotten memory (src/runner/context.ts): its head, then its text. */
function redactMessage(body: string): string {
  const message = JSON.parse(body) as StoredMessage;
  for (const part of message.parts)
    if (part.text !== undefined)
      part.text = `${part.text.slice(0, part.text.indexOf(':\n') + 2)}${FORGOTTEN}`;
  return JSON.stringify(message);
}

/** Vectors are kept by the hash of their text, which would confirm a guess of it. */
export async function deleteVectors(
  sql: Sql,
  forgotten: readonly ForgottenMemory[],
): Promise<number> {
  let deleted = 0;
  const texts = forgotten.flatMap((memory) => memory.texts.map(({ text }) => text));
  for (let model = ''; ; ) {
    const next = await sql.one<{ model: string }>(
      'SELECT model FROM embeddings WHERE model > ? ORDER BY model LIMIT 1',
      model,
    );
    if (next === undefined) return deleted;
    model = next.model;
    for (const text of texts)
      deleted += await sql.run(
        'DELETE FROM embeddings WHERE model = ? AND hash = ?',
        model,
        sha256Hex(text),
      );
  }
}
