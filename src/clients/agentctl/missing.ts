// Collects the parts of a result that could not be read; the output lists them, never omits them.
import { Fault } from '../../wire/errors.ts';
import type { Paint } from './out.ts';
import { replaceControls } from './show/plain.ts';

export type Missing = { what: string; code: string; message: string; hint: string };

export type PartialResult = {
  missing: Missing[];
  /** Resolves to undefined on a fault, which is added to `missing`. */
  collect<T>(what: string, reply: Promise<T>): Promise<T | undefined>;
};

export function makePartialResult(): PartialResult {
  const missing: Missing[] = [];
  return {
    missing,
    async collect(what, reply) {
      try {
        return await reply;
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        const { code, message, hint } = error;
        missing.push({ what, code, message, hint });
        return undefined;
      }
    },
  };
}

export function renderMissing(missing: readonly Missing[], paint: Paint): string[] {
  return missing.flatMap(({ what, code, message, hint }) => [
    `${paint('yellow', 'missing')}  ${what}: ${replaceControls(message)} (${code})`,
    `${' '.repeat(9)}${replaceControls(hint)}`,
  ]);
}
