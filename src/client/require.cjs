// For `require`: the same modules that `import` loads, so that there is one class of each name.
const client = require('./dist/index.js');

Object.defineProperty(exports, '__esModule', { value: true });
exports.Client = client.Client;
exports.Analytics = client.Analytics;
exports.Context = client.Context;
exports.ClientError = client.ClientError;
exports.DeliveryError = client.DeliveryError;
exports.default = client.Analytics;
