//! From a verb to the resource's method, and from its result to a response.

mod apply;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Response, StatusCode};
use joinery_object::{
    DeleteOptions, FieldSelector, FieldValidation, ListOptions, ObjectKey, PatchOptions, Status,
    WriteOptions, default_field_manager, not_a_path_segment,
};
use joinery_resource::{Caller, Definition, List, PatchType, Resource, Written, duplicate_fields};

use self::apply::Apply;
use crate::app::App;
use crate::body::Body;
use crate::encoding::{
    IncludeObject, ListWriter, Representation, encode_object, finish, finish_list, negotiate,
};
use crate::handler::Asked;
use crate::limits::spread;
use crate::request::{
    BodyFormat, ResourcePath, UNKNOWN, body_format, patch_type, read_body, to_json,
};
use crate::watch::{FrameWriter, OpenWatch, failed};
use crate::websocket::Handshake;
use crate::{paths, respond};

/// A request for a resource that exists.
struct Call<'a> {
    app: &'a App,
    asked: &'a Asked,
    path: &'a ResourcePath,
    caller: &'a Caller,
    resource: Arc<dyn Resource>,
    definition: Arc<Definition>,
    representation: Representation,
}

/// Answers a request for a resource.
///
/// # Errors
/// 404 for a resource or scope that is not there, 405 for a verb that it does not have, 406 and 415 for formats, 413
/// for a large body, and whatever the resource says.
pub(crate) async fn respond<B>(
    app: &App,
    asked: &Asked,
    path: &ResourcePath,
    caller: &Caller,
    body: B,
) -> Result<Response<Body>, Status>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let snapshot = app.catalog.snapshot();
    let Some(resource) = snapshot.find(&path.gvr) else {
        return Err(if app.health.is_ready() {
            Status::path_not_found()
        } else {
            paths::starting()
        });
    };
    let definition = resource.definition();
    if asked.info.verb == UNKNOWN {
        let method = asked.parts.method.as_str();
        return Err(Status::method_not_supported(&path.gvr, method));
    }
    check(&definition, path, asked.info.verb)?;
    let call = Call {
        app,
        asked,
        path,
        caller,
        resource: resource.clone(),
        representation: negotiate(&asked.parts.headers, &asked.query, asked.info.verb)?,
        definition,
    };
    match asked.info.verb {
        "get" => call.get().await,
        "list" => call.list().await,
        "watch" => call.watch().await,
        "create" => call.create(body).await,
        "update" => call.update(body).await,
        "patch" => call.patch(body).await,
        "delete" => call.delete(body).await,
        "deletecollection" => call.delete_collection(body).await,
        other => Err(Status::method_not_supported(&path.gvr, other)),
    }
}

/// Whether there is something at this path, and whether it has this verb.
fn check(definition: &Definition, path: &ResourcePath, verb: &str) -> Result<(), Status> {
    let in_scope = match (&path.name, definition.namespaced) {
        // Across all namespaces only collections can be read.
        (None, true) => true,
        (Some(_), true) => path.in_namespace,
        (_, false) => !path.in_namespace,
    };
    // Only objects themselves are watched.
    if path.trailing || !in_scope || path.watch && path.subresource.is_some() {
        return Err(Status::path_not_found());
    }
    // What cannot be a name is not looked for, as k8s.io/apiserver/pkg/registry/generic/registry/store.go has it; a namespace neither.
    for (what, value) in [("Name", &path.name), ("Namespace", &path.namespace)] {
        if let Some(value) = value
            && let Some(problem) = not_a_path_segment(value)
        {
            let message = format!("{what} parameter invalid: {value:?}: {problem}");
            return Err(Status::bad_request(message));
        }
    }
    if let Some(subresource) = &path.subresource {
        if !(definition.status_subresource && subresource == "status") {
            // As of a custom resource: it is the object that has no such part.
            let name = path.name.as_deref().unwrap_or_default();
            return Err(Status::not_found(&path.gvr, name));
        }
        return match verb {
            "get" | "update" | "patch" => Ok(()),
            _ => Err(Status::method_not_supported(&path.gvr, verb)),
        };
    }
    let collection = path.name.is_none();
    let fits = match verb {
        "watch" => collection || path.watch,
        "list" => collection,
        "deletecollection" => collection && path.in_namespace == definition.namespaced,
        // With a name in the path too: `kubectl create --raw` takes whatever path it is given.
        "create" => path.in_namespace == definition.namespaced,
        _ => !collection,
    };
    if fits && definition.verbs.contains(&verb) {
        Ok(())
    } else {
        Err(Status::method_not_supported(&path.gvr, verb))
    }
}

impl Call<'_> {
    /// The scope of a collection.
    fn namespace(&self) -> Option<&str> {
        self.path
            .namespace
            .as_deref()
            .filter(|_| self.path.in_namespace)
    }

    /// The object that the path names.
    fn key(&self) -> Result<ObjectKey, Status> {
        let name = self
            .path
            .name
            .as_deref()
            .ok_or_else(Status::path_not_found)?;
        Ok(ObjectKey::new(self.namespace(), name))
    }

    async fn get(&self) -> Result<Response<Body>, Status> {
        let version = Some(self.asked.query.get("resourceVersion")).filter(|v| !v.is_empty());
        let object = self
            .resource
            .get(self.caller, &self.key()?, version)
            .await?;
        let document = encode_object(
            &self.definition,
            &object,
            self.representation,
            &self.asked.query,
        )?;
        self.finish(StatusCode::OK, document).await
    }

    async fn list(&self) -> Result<Response<Body>, Status> {
        let options = self.list_options()?;
        let list = self
            .resource
            .list(self.caller, self.namespace(), &options)
            .await?;
        self.answer_list(list).await
    }

    async fn watch(&self) -> Result<Response<Body>, Status> {
        let mut options = self.list_options()?;
        let include = IncludeObject::from_query(&self.asked.query)?;
        let least = self.app.limits.min_watch_timeout;
        let lifetime = match options.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds.into()),
            _ => least + spread(least),
        };
        // The resource sends its last bookmark shortly before the end.
        options.timeout_seconds =
            Some(u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX).max(1));
        let frames = match self
            .resource
            .watch(self.caller, self.namespace(), &options)
            .await
        {
            Ok(items) => {
                let (open, events) = self.app.metrics.watch(&self.asked.labels);
                let closing = self.app.closing.clone();
                let delay = spread(self.app.limits.shutdown_grace / 2);
                OpenWatch {
                    items,
                    writer: FrameWriter::new(
                        self.definition.clone(),
                        self.representation.shape,
                        include,
                    ),
                    bookmarks: options.allow_watch_bookmarks,
                    events,
                    _open: open,
                    closing: async move {
                        closing.cancelled_owned().await;
                        tokio::time::sleep(delay).await;
                    }
                    .boxed(),
                }
                .frames(lifetime)
            }
            // As upstream: an expired version is told in the stream.
            Err(status) if status.code == 410 => failed(&status),
            Err(status) => return Err(status),
        };
        if let Some(handshake) = Handshake::of(&self.asked.parts) {
            return Ok(match handshake {
                Ok(handshake) => {
                    let (response, serve) = handshake.accept(frames);
                    self.app.running.spawn(serve);
                    response
                }
                Err(refused) => *refused,
            });
        }
        let mut response = Response::new(Body::Stream(frames));
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    async fn create<B>(&self, body: B) -> Result<Response<Body>, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let options = self.manager(WriteOptions::create_from_query(&self.asked.query)?);
        let body = self.object(body).await?;
        let name = self.path.name.as_deref();
        let written = self
            .resource
            .create(self.caller, self.namespace(), name, body, &options)
            .await?;
        self.answer(&written, StatusCode::CREATED).await
    }

    async fn update<B>(&self, body: B) -> Result<Response<Body>, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let options = self.manager(WriteOptions::update_from_query(&self.asked.query)?);
        let body = self.object(body).await?;
        let subresource = self.path.subresource.as_deref();
        let written = self
            .resource
            .update(self.caller, &self.key()?, subresource, body, &options)
            .await?;
        self.answer(&written, code(&written)).await
    }

    async fn patch<B>(&self, body: B) -> Result<Response<Body>, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let patch = patch_type(&self.asked.parts.headers, &self.path.gvr.group)?;
        let mut options = PatchOptions::from_query(&self.asked.query, patch == PatchType::Apply)?;
        options.write = self.manager(options.write);
        let body = read_body(body).await?;
        let key = self.key()?;
        let subresource = self.path.subresource.as_deref();
        let written = match patch {
            PatchType::Apply => {
                let configuration = to_json(body, BodyFormat::Yaml)?;
                let twice = duplicate_fields(&configuration);
                let validation = options.write.field_validation;
                if validation == FieldValidation::Strict && !twice.is_empty() {
                    let twice = twice.join(", ");
                    let message = format!("error strict decoding YAML: {twice}");
                    return Err(Status::bad_request(message));
                }
                let apply = Apply {
                    resource: &*self.resource,
                    authorizer: &*self.app.authorizer,
                    caller: self.caller,
                    key: &key,
                    subresource,
                    attributes: self
                        .asked
                        .info
                        .attributes(self.asked.path(), &self.asked.query),
                    options: &options,
                };
                let mut written = apply.run(configuration).await?;
                if validation == FieldValidation::Warn {
                    written.warnings.extend(twice);
                }
                written
            }
            // Whether it is a patch is the patch's own concern, and so is the error.
            PatchType::Json | PatchType::Merge | PatchType::Strategic => {
                self.resource
                    .patch(self.caller, &key, subresource, patch, body, &options)
                    .await?
            }
        };
        self.answer(&written, code(&written)).await
    }

    async fn delete<B>(&self, body: B) -> Result<Response<Body>, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let options = self.delete_options(body).await?;
        let key = self.key()?;
        let written = self.resource.delete(self.caller, &key, &options).await?;
        if !written.removed {
            return self.answer(&written, StatusCode::OK).await;
        }
        let status = Status::success(&self.path.gvr, &key.name, written.object.uid());
        let mut response = self.finish(StatusCode::OK, status.to_json().into()).await?;
        respond::warn(response.headers_mut(), &written.warnings);
        Ok(response)
    }

    async fn delete_collection<B>(&self, body: B) -> Result<Response<Body>, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let selection = self.list_options()?;
        let options = self.delete_options(body).await?;
        let list = self
            .resource
            .delete_collection(self.caller, self.namespace(), &selection, &options)
            .await?;
        self.answer_list(list).await
    }

    fn list_options(&self) -> Result<ListOptions, Status> {
        let watch = self.asked.info.verb == "watch";
        let mut options = ListOptions::read(&self.asked.query, watch)?;
        let selectable = self.definition.selectable_fields.iter();
        options.field_selector.check_fields(
            self.definition.namespaced,
            selectable.map(|path| path.trim_start_matches('.')),
        )?;
        // Only the deprecated paths of watches have a name here.
        if let Some(name) = &self.path.name {
            let selected = options.field_selector.requires_exact_match("metadata.name");
            if options.field_selector.is_empty() {
                options.field_selector = FieldSelector::name(name);
            } else if selected != Some(name) {
                return Err(Status::bad_request(
                    "fieldSelector metadata.name doesn't match requested name",
                ));
            }
        }
        Ok(options)
    }

    async fn delete_options<B>(&self, body: B) -> Result<DeleteOptions, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let format = body_format(&self.asked.parts.headers)?;
        let body = to_json(read_body(body).await?, format)?;
        DeleteOptions::read(&self.asked.query, &body)
    }

    /// The object that the body holds, as JSON.
    async fn object<B>(&self, body: B) -> Result<Bytes, Status>
    where
        B: http_body::Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let format = body_format(&self.asked.parts.headers)?;
        let body = to_json(read_body(body).await?, format)?;
        if body.is_empty() {
            return Err(Status::bad_request(format!(
                "the body is empty: a {} is expected",
                self.definition.kind
            )));
        }
        Ok(body)
    }

    fn manager(&self, mut options: WriteOptions) -> WriteOptions {
        if options.field_manager.is_none() {
            let agent = self
                .asked
                .parts
                .headers
                .get(USER_AGENT)
                .and_then(|v| v.to_str().ok());
            options.field_manager = agent
                .map(default_field_manager)
                .filter(|manager| !manager.is_empty());
        }
        options
    }

    async fn answer(&self, written: &Written, code: StatusCode) -> Result<Response<Body>, Status> {
        let document = encode_object(
            &self.definition,
            &written.object,
            self.representation,
            &self.asked.query,
        )?;
        let mut response = self.finish(code, document).await?;
        respond::warn(response.headers_mut(), &written.warnings);
        Ok(response)
    }

    async fn answer_list(&self, mut list: List) -> Result<Response<Body>, Status> {
        let Representation {
            format,
            shape,
            pretty,
        } = self.representation;
        let warnings = std::mem::take(&mut list.warnings);
        let list = ListWriter::new(self.definition.clone(), list, shape, &self.asked.query)?;
        let mut response = finish_list(list, format, pretty, &self.asked.parts.headers).await?;
        respond::warn(response.headers_mut(), &warnings);
        Ok(response)
    }

    async fn finish(
        &self,
        code: StatusCode,
        document: crate::body::Pieces,
    ) -> Result<Response<Body>, Status> {
        let Representation { format, pretty, .. } = self.representation;
        finish(code, document, format, pretty, &self.asked.parts.headers).await
    }
}

fn code(written: &Written) -> StatusCode {
    if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    }
}
