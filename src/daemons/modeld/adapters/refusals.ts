// Rejects what a client's body contains and another dialect cannot say, or what is malformed.
import { fault } from '../../../wire/errors.ts';

export function rejectUntranslatable(what: string, dialect: string): never {
  throw fault('bad_request', `${what} cannot be carried to this model's provider`, {
    hint: `Leave it out, or use a model whose provider speaks the ${dialect} dialect.`,
  });
}

export function rejectMalformed(what: string): never {
  throw fault('bad_request', what);
}

/** Lists a body's members that are set and not known, for the response header `agentd-dropped`. */
export function listUnknown(body: Record<string, unknown>, known: ReadonlySet<string>): string[] {
  return Object.keys(body).filter(
    (key) => !known.has(key) && body[key] !== undefined && body[key] !== null,
  );
}

/** Returns a list of texts, such as those that stop a response. */
export function readTexts(values: readonly unknown[], where: string): string[] {
  return values.map((value, index) =>
    typeof value === 'string' ? value : rejectMalformed(`${where}[${index}] must be a text`),
  );
}
