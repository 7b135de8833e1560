// The dialects by name, and errors in a client's dialect.
import type { Fault } from '../../../wire/errors.ts';
import type { DialectName } from '../../../wire/modeld.ts';
import { anthropic } from './anthropic.ts';
import type { Dialect, DialectError } from './dialect.ts';
import { openai } from './openai.ts';
import { responses } from './responses.ts';

export const dialects: Record<DialectName, Dialect> = { anthropic, openai, responses };

export function writeDialectError(dialect: DialectName, fault: Fault): DialectError {
  return dialects[dialect].writeError(fault);
}
