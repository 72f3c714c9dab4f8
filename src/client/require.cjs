// For `require`: the same modules that `import` loads, so that there is one class of each name.
const client = require('./dist/index.js');

Object.defineProperty(exports, '__esModule', { value: true });
exports.Client = client.Client;
exports.ClientError = client.ClientError;
