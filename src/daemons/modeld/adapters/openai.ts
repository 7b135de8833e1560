// The OpenAI Chat Completions dialect, assembled from the folder of the same name.
import type { Dialect } from './dialect.ts';
import { readRequest } from './openai/read-request.ts';
import { readResponse, readStream } from './openai/read-response.ts';
import { writeOpenaiError, writeOpenaiStreamError } from './openai/write-errors.ts';
import { writeRequest } from './openai/write-request.ts';
import { writeResponse, writeStream } from './openai/write-response.ts';
import { asNumber, type JsonObject } from './reading.ts';

const LIMIT_FIELDS = ['max_completion_tokens', 'max_tokens'] as const;

export const openai: Dialect = {
  name: 'openai',
  chatPath: '/chat/completions',
  authHeaders: (key) => ({ authorization: `Bearer ${key}` }),
  passHeaders: () => ({}),
  writeRequest,
  readResponse: readResponse,
  readStream,
  readRequest,
  writeResponse: writeResponse,
  writeStream,
  writeError: writeOpenaiError,
  writeStreamError: writeOpenaiStreamError,
  readOutputLimit(body) {
    const limits = LIMIT_FIELDS.map((name) => asNumber(body[name])).filter((n) => n !== undefined);
    const choices = Math.max(1, asNumber(body.n) ?? 1);
    return { tokens: limits.length === 0 ? undefined : Math.min(...limits), choices };
  },
  outputLimit(body, tokens, options) {
    const changes: JsonObject = {};
    for (const name of LIMIT_FIELDS) if (asNumber(body[name]) !== undefined) changes[name] = tokens;
    if (Object.keys(changes).length === 0)
      changes[options.maxTokensField ?? 'max_completion_tokens'] = tokens;
    return changes;
  },
};
