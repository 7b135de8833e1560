// The Anthropic Messages dialect, assembled from the folder of the same name.
import { readRequest } from './anthropic/read-request.ts';
import { readResponse, readStream } from './anthropic/read-response.ts';
import { passHeaders } from './anthropic/version.ts';
import { writeAnthropicError, writeAnthropicStreamError } from './anthropic/write-errors.ts';
import { writeRequest } from './anthropic/write-request.ts';
import { writeResponse, writeStream } from './anthropic/write-response.ts';
import type { Dialect } from './dialect.ts';
import { asNumber } from './reading.ts';

export const anthropic: Dialect = {
  name: 'anthropic',
  chatPath: '/v1/messages',
  authHeaders: (key) => ({ 'x-api-key': key }),
  passHeaders,
  writeRequest,
  readResponse: readResponse,
  readStream,
  readRequest,
  writeResponse: writeResponse,
  writeStream,
  writeError: writeAnthropicError,
  writeStreamError: writeAnthropicStreamError,
  readOutputLimit: (body) => ({ tokens: asNumber(body.max_tokens), choices: 1 }),
  outputLimit: (_body, tokens) => ({ max_tokens: tokens }),
};
