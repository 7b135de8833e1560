// OpenAI's Responses dialect, assembled from the folder of the same name.
import type { Dialect } from './dialect.ts';
import { writeOpenaiError } from './openai/write-errors.ts';
import { asNumber } from './reading.ts';
import { assertSelfContained, readRequest } from './responses/read-request.ts';
import { readResponse, readStream } from './responses/read-response.ts';
import { writeResponsesStreamError } from './responses/write-errors.ts';
import { writeRequest } from './responses/write-request.ts';
import { writeResponse, writeStream } from './responses/write-response.ts';

export const responses: Dialect = {
  name: 'responses',
  chatPath: '/responses',
  authHeaders: (key) => ({ authorization: `Bearer ${key}` }),
  passHeaders: () => ({}),
  writeRequest,
  readResponse,
  readStream,
  readRequest,
  assertSelfContained,
  writeResponse,
  writeStream,
  writeError: writeOpenaiError,
  writeStreamError: writeResponsesStreamError,
  readOutputLimit: (body) => ({ tokens: asNumber(body.max_output_tokens), choices: 1 }),
  outputLimit: (_body, tokens) => ({ max_output_tokens: tokens }),
};
