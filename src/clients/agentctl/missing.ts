// Parts of an answer that could not be had. They are said in the answer, never left out silently.
import { Fault } from '../../wire/errors.ts';
import type { Paint } from './out.ts';
import { replaceControls } from './show/plain.ts';

export type Missing = { what: string; code: string; message: string; hint: string };

export type PartialResult = {
  missing: Missing[];
  /** The answer, or nothing when it could not be had; why not is in `missing`. */
  collect<T>(what: string, asked: Promise<T>): Promise<T | undefined>;
};

export function makePartialResult(): PartialResult {
  const missing: Missing[] = [];
  return {
    missing,
    async collect(what, asked) {
      try {
        return await asked;
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
